"""The findings on learning curves."""

import numpy as np
import pytest
from recorded import record

from tuner.reporting.advice.curves import check_curves
from tuner.spec.code import IMAGE_CLASSIFIER

LENGTH = 16
WHOLE = {"scheduler": {"max_t": LENGTH, "grace_period": LENGTH}}


def findings_of(curve, trials=20, **spec):
    """The findings on curves: curve(epochs, u, rng) gives losses, and training losses."""

    def metrics(u_D, rng):
        loss_E, train_E = curve(np.arange(1, LENGTH + 1), u_D, rng)
        pairs = zip(loss_E, train_E, strict=True)
        return [
            {"val_loss": float(a), "train_loss": float(b), "lr": rate(n)}
            for n, (a, b) in enumerate(pairs)
        ]

    def rate(n):
        return 0.1 * (1 - n / LENGTH) if annealed else 0.1

    annealed = spec.pop("annealed", False)
    return {
        f.kind: f for f in check_curves(record(metrics, trials, **{**WHOLE, **spec}))
    }


def slow(epoch_E, u_D, rng):
    return [u_D[0] + epoch_E**-0.4] * 2


def test_curves_that_still_improve_need_longer_trials():
    finding = findings_of(slow)["max_t_short"]
    assert finding.command == "tuner resume digits scheduler.max_t=32"
    low, high = finding.figures["interval"]
    truth = LENGTH**-0.4 - (2 * LENGTH) ** -0.4
    assert low <= finding.figures["expected_gain"] <= high
    assert abs(finding.figures["expected_gain"] - truth) < 0.2 * truth


def test_curves_of_an_annealed_rate_say_nothing_of_longer_ones():
    assert "max_t_short" not in findings_of(slow, annealed=True)
    assert findings_of(slow, training={"folds": LENGTH, "fold_epochs": 2}) == {}


def flat(epoch_E, u_D, rng):
    return [u_D[0] + np.exp(-epoch_E)] * 2


def test_curves_that_are_flat_need_shorter_trials():
    finding = findings_of(flat)["max_t_long"]
    assert finding.figures["best_by"] <= 6
    assert finding.figures["saved_epochs"] >= 20 * 8
    shorter = LENGTH - finding.figures["saved_epochs"] // 20
    settings = f"scheduler.max_t={shorter} scheduler.grace_period={shorter}"
    assert finding.command == f"tuner run --like digits {settings}"


@pytest.mark.parametrize(
    ("spec", "shortest"),
    [
        ({"trainable": IMAGE_CLASSIFIER, "training": {"warmup_epochs": 9}}, 10),
        ({"objective": {"metric": "val_loss", "from_epoch": 9}}, 9),
        ({"trainable": IMAGE_CLASSIFIER, "training": {"warmup_epochs": 12}}, None),
    ],
)
def test_curves_that_are_flat_need_no_shorter_trials_than_the_spec_takes(
    spec, shortest
):
    finding = findings_of(flat, **spec).get("max_t_long")
    assert (finding and f"max_t={shortest} " in finding.command) == (shortest and True)


NOISY = ({}, "ema_decay=0.98"), ({"lr_schedule": "constant"}, "lr_schedule=cosine")


@pytest.mark.parametrize(("training", "setting"), NOISY)
def test_curves_that_jump_more_than_trials_differ_are_noisy(training, setting):
    def noisy(jumps, **spec):
        def losses(e, u_D, rng):
            return [0.1 * u_D[0] + 1 / e + jumps * rng.normal(size=LENGTH), e]

        return findings_of(losses, training=training, **spec).get("noisy_steps")

    finding = noisy(0.3, trainable=IMAGE_CLASSIFIER)
    assert finding.figures["noise"] == pytest.approx(0.3, rel=0.5)
    assert finding.command == f"tuner run --like digits training.{setting}"
    assert noisy(0.3).command == "tuner confirm digits --top 10"
    assert noisy(0.01) is None


def test_curves_that_rise_while_training_falls_overfit():
    rising = findings_of(
        lambda e, u_D, rng: (1 / e + 0.05 * np.maximum(e - 8, 0), 1 / e),
        training={"weight_decay": 0.1},
    )
    finding = rising["overfitting"]
    assert finding.figures["best_epoch"] == 8
    assert finding.figures["regularisers"] == ["weight_decay"]
    assert finding.command.endswith(" scheduler.max_t=8 scheduler.grace_period=8")
    both = findings_of(lambda e, u_D, rng: [1 / e + 0.05 * np.maximum(e - 8, 0)] * 2)
    assert "overfitting" not in both
