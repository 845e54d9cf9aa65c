"""The findings on rungs, the grace period and slots."""

import shlex
from operator import itemgetter

import numpy as np
import pytest
from recorded import record

from tuner.experiment.history import fold
from tuner.reporting.advice.record import SearchRecord
from tuner.reporting.advice.spending import check_spending, compute_rank_correlation
from tuner.spec.experiment import build_spec
from tuner.spec.text import apply_assignments


def ran(early=lambda u_D, rng: u_D[0], goes_on=lambda loss: loss < 0.5, first=1):
    """A search of 9 epochs whose loss is `early` before epoch 3, and then the first quantile."""

    def metrics(u_D, rng):
        values = [float(early(u_D, rng))] * 2 + [float(u_D[0])] * 7
        values = values if goes_on(values[first - 1]) else values[:first]
        return [{"val_loss": value + 1 / e} for e, value in enumerate(values, start=1)]

    return record(
        metrics,
        80,
        scheduler={"max_t": 9, "grace_period": first, "reduction_factor": 3},
    )


def kinds(made):
    return {finding.kind: finding for finding in check_spending(made)}


def after(finding, made):
    """The spec that the finding's command searches with."""
    *command, setting = shlex.split(finding.command)
    assert command == ["tuner", "run", "--like", "digits"]
    return build_spec(apply_assignments(made.spec.dump_values(), [setting]))


def test_rung_with_a_random_order_names_the_first_epoch_that_tells():
    made = ran(lambda u_D, rng: rng.random())
    finding = kinds(made)["rung_blind"]
    assert finding.severity == "high"
    assert after(finding, made).scheduler.grace_period == 3
    assert "rung_blind" not in kinds(ran())


@pytest.mark.parametrize(
    ("early", "epoch"),
    [(lambda u_D, rng: u_D[0], 1), (lambda u_D, rng: rng.random(), 3)],
)
def test_late_first_rung_names_the_first_epoch_that_has_all_leaders(early, epoch):
    finding = kinds(made := ran(early, first=6))["grace_long"]
    assert after(finding, made).scheduler.grace_period == epoch
    assert finding.figures["saved_epochs"] >= 53 * (6 - epoch)
    assert "grace_long" not in kinds(ran(early, goes_on=lambda loss: True, first=epoch))


def slots(trials=40, *, wait=0.0, after=0.0, limit=None, cpus=1):
    """Trials of 10 s in two slots, `wait` seconds apart, the last one `after` s longer."""
    events = [{"event": "experiment_started", "time": 0.0, "resumed": False}]
    for number in range(trials):
        trial = {"trial_id": f"{number:05}"}
        start = number // 2 * (10 + wait)
        end = start + 9.999 + (after if number == trials - 1 else 0)
        events.append({"event": "trial_started", "time": start, **trial, "config": {}})
        events.append(
            {"event": "trial_ended", "time": end, **trial, "status": "completed"}
        )
    events.append({"event": "experiment_ended", "time": end, "status": "completed"})
    limits = {"resources": {"cpus": cpus}, "max_concurrent": limit}
    spec = record(lambda u_D, rng: [], trials, **limits).spec
    return SearchRecord("digits", spec, fold(sorted(events, key=itemgetter("time"))))


@pytest.mark.parametrize(
    ("how", "why", "command"),
    [
        ({"wait": 10}, "waits", "tuner doctor"),
        ({"after": 400}, "ends", "tuner resume digits --add-samples 40"),
        (
            {"limit": 3, "cpus": 3},
            "unfilled",
            "tuner run --like digits resources.cpus=2",
        ),
        ({"limit": 4}, "unfilled", "tuner run --like digits resources.cpus=0.5"),
    ],
)
def test_empty_slots_are_found_with_their_main_reason(how, why, command):
    finding = kinds(slots(**how))["slots_idle"]
    parts = {name: finding.figures[name] for name in ("ends", "waits", "unfilled")}
    assert sum(parts.values()) == pytest.approx(finding.figures["idle"])
    assert (max(parts, key=parts.get), finding.command) == (why, command)
    assert kinds(slots()) == kinds(slots(8, wait=10)) == {}


def test_correlation_interval_holds_as_often_as_it_says():
    rng = np.random.default_rng(0)
    truth = 6 / np.pi * np.arcsin(0.25)  # of normal values
    draws = rng.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], (400, 30))
    held = [low < truth < high for _, low, high in map(compute_rank_correlation, draws)]
    assert 0.92 < np.mean(held) < 0.98
    assert (
        compute_rank_correlation([(1, 2)] * 9)[0],
        compute_rank_correlation([(1, 2)] * 3),
    ) == (
        0,
        (0, -1, 1),
    )


@pytest.mark.parametrize(
    ("gpus", "share", "advised"),
    [(1, 0.2, 0.25), (0.5, 0.05, 0.06), (0.04, 0.004, 0.005)],
)
def test_gpu_memory_that_no_trial_needs_is_spare(gpus, share, advised):
    def made(share):
        metrics = [{"val_loss": 1.0, "peak_memory_share": share}]
        return record(lambda u_D, rng: metrics, 8, resources={"gpus": gpus})

    assert (
        after(kinds(made(share))["memory_spare"], made(share)).resources.gpus == advised
    )
    assert "memory_spare" not in kinds(made(0.5 * gpus))


def test_memory_of_a_trial_with_several_gpus_is_not_spare():
    metrics = [{"val_loss": 1.0, "peak_memory_share": 0.1}]
    made = record(lambda u_D, rng: metrics, 8, resources={"gpus": 2})
    assert "memory_spare" not in kinds(made)


@pytest.mark.parametrize(
    ("waits", "severity"), [(0.2, None), (0.5, "medium"), (0.7, "high")]
)
def test_trials_that_wait_for_data_get_more_cpus(waits, severity):
    made = record(
        lambda u_D, rng: [{"val_loss": 1.0, "epoch_s": 5.0, "data_s": 5 * waits}], 8
    )
    finding = kinds(made).get("data_slow")
    assert (finding and finding.severity) == severity
    assert not finding or after(finding, made).resources.cpus == 2
