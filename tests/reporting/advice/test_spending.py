"""The findings on rungs, the grace period and slots."""

import shlex

import numpy as np
import pytest
from recorded import SPACE, record

from tuner.experiment.history import fold
from tuner.reporting.advice.record import SearchRecord
from tuner.reporting.advice.spending import correlation, spending_findings
from tuner.spec.experiment import build_spec
from tuner.spec.text import override

LENGTH = 9


def ran(early=lambda u_D, rng: u_D[0], goes_on=lambda loss: loss < 0.5, first=1, **spec):
    """A search whose loss is `early` before epoch 3, and then the first quantile."""

    def metrics(u_D, rng):
        values = [float(early(u_D, rng))] * 2 + [float(u_D[0])] * (LENGTH - 2)
        epochs = LENGTH if goes_on(values[first - 1]) else first
        return [{"val_loss": value + 1 / e} for e, value in enumerate(values[:epochs], start=1)]

    scheduler = {"max_t": LENGTH, "grace_period": first, "reduction_factor": 3}
    return record(metrics, 80, **{"scheduler": scheduler, **spec})


def kinds(made):
    return {finding.kind: finding for finding in spending_findings(made)}


def after(finding, made):
    """The spec that the finding's command searches with."""
    *command, setting = shlex.split(finding.command)
    assert command == ["tuner", "run", "--like", "digits"]
    return build_spec(override(made.spec.plain(), [setting]))


def test_rung_with_a_random_order_names_the_first_epoch_that_tells():
    made = ran(lambda u_D, rng: rng.random())
    finding = kinds(made)["rung_blind"]
    low, high = finding.figures["interval"]
    assert low < 0 < high
    assert (finding.severity, finding.figures["rung"]) == ("high", 1)
    assert after(finding, made).scheduler.grace_period == 3
    assert "rung_blind" not in kinds(ran())


def test_rung_that_stops_none_is_unused():
    made = ran(goes_on=lambda loss: True)
    finding = kinds(made)["rung_unused"]
    assert (finding.figures["stopped"], finding.figures["n"]) == (0, 80)
    assert after(finding, made).scheduler.name == "forecast"


@pytest.mark.parametrize(
    ("early", "epoch"), [(lambda u_D, rng: u_D[0], 1), (lambda u_D, rng: rng.random(), 3)]
)
def test_late_first_rung_names_the_first_epoch_that_has_all_leaders(early, epoch):
    made = ran(early, first=6)
    finding = kinds(made)["grace_long"]
    assert after(finding, made).scheduler.grace_period == epoch
    assert finding.figures["saved_epochs"] >= 53 * (6 - epoch)
    assert "grace_long" not in kinds(ran(early, goes_on=lambda loss: True, first=epoch))


def slots(trials=40, *, slots=2, wait=0.0, after=0.0, limit=None, cpus=1):
    """Trials of 10 s in so many slots, `wait` seconds apart, the last one `after` s longer."""
    events = [{"event": "experiment_started", "time": 0.0, "resumed": False}]
    for number in range(trials):
        time = number // slots * (10 + wait)
        end = time + 10 + (after if number == trials - 1 else 0)
        trial = {"trial_id": f"{number:05}"}
        events.append({"event": "trial_started", "time": time, **trial, "config": {"lr": 0.1}})
        events.append({"event": "trial_ended", "time": end - 0.001, **trial, "status": "completed"})
    events.append({"event": "experiment_ended", "time": end, "status": "completed"})
    fields = {
        "trainable": "module:function",
        "search": {"strategy": "random", "space": SPACE},
        "resources": {"cpus": cpus},
        "max_concurrent": limit,
        "num_samples": trials,
    }
    spec = build_spec(fields)
    events.sort(key=lambda event: event["time"])
    return SearchRecord("digits", spec, fold(events, spec.objective))


@pytest.mark.parametrize(
    ("how", "share", "command"),
    [
        ({"wait": 10}, "waits", "tuner doctor"),
        ({"after": 400}, "ends", "tuner resume digits --add-samples 40"),
        ({"limit": 3, "cpus": 3}, "unfilled", "tuner run --like digits resources.cpus=2"),
        ({"limit": 4}, "unfilled", "tuner run --like digits resources.cpus=0.5"),
    ],
)
def test_empty_slots_are_found_with_their_main_reason(how, share, command):
    finding = kinds(slots(**how))["slots_idle"]
    parts = {name: finding.figures[name] for name in ("ends", "waits", "unfilled")}
    assert sum(parts.values()) == pytest.approx(finding.figures["idle"])
    assert max(parts, key=parts.get) == share
    assert finding.command == command


@pytest.mark.parametrize("how", [{}, {"trials": 8, "wait": 10}])
def test_busy_slots_or_few_trials_are_no_finding(how):
    assert kinds(slots(**how)) == {}


def test_correlation_has_its_interval():
    rng = np.random.default_rng(0)
    draws = [rng.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], 30) for _ in range(400)]
    bounds = [correlation(draw)[1:] for draw in draws]
    truth = 6 / np.pi * np.arcsin(0.25)  # Spearman's, of normal values
    assert 0.92 < np.mean([low < truth < high for low, high in bounds]) < 0.98
    assert correlation([(1, 2)] * 9)[0] == 0
    assert correlation([(1, 2)] * 3) == (0, -1, 1)
