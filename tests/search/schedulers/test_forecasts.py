"""Stopping by prediction: who is stopped, and what is told of it."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
from synthetic import Writer, make_folder

from tuner.experiment.events import RESULT
from tuner.experiment.history import History
from tuner.experiment.reading import read
from tuner.search.resuming import restored
from tuner.search.schedulers._forecasts import Forecasts
from tuner.search.schedulers._stopping import StoppingScheduler
from tuner.search.schedulers.forecast import ForecastSettings
from tuner.spec.sections import Objective

SETTINGS = ForecastSettings(max_t=10)
Reports = list[tuple[int, int, float]]  # trial, epoch, value


def scheduler(settings: ForecastSettings = SETTINGS, **objective: Any) -> StoppingScheduler:
    built: StoppingScheduler = settings.build(Objective(metric="val_loss", **objective))
    return built


def play(rule: StoppingScheduler, curves: list[list[float]], at_once: int = 4) -> Reports:
    """Report the curves, `at_once` trials at a time, while the rule lets them go on."""
    reports, waiting, running = [], list(enumerate(curves)), {}
    while waiting or running:
        while waiting and len(running) < at_once:
            number, curve = waiting.pop(0)
            running[number] = iter(enumerate(curve, start=1))
        for number, curve in list(running.items()):
            epoch, value = next(curve, (0, 0.0))
            if epoch:
                reports.append((number, epoch, value))
            if not epoch or not rule.record(f"{number:05}", epoch, {"val_loss": value}):
                del running[number]
    return reports


def falling(count: int, start: float = 1.0) -> list[list[float]]:
    """Curves that tell their ends from the third epoch on, and nothing before."""
    ends = np.random.default_rng(1).permutation(np.linspace(0.1, 0.8, count)).tolist()
    return [[start if e < 3 else end + (start - end) / e for e in range(1, 11)] for end in ends]


@pytest.mark.parametrize("mode", ["min", "max"])
def test_bad_trials_are_stopped_early_and_the_best_runs_to_its_end(
    mode: Literal["min", "max"],
) -> None:
    sign = 1 if mode == "min" else -1
    curves = [[sign * value for value in curve] for curve in falling(40)]
    rule = scheduler(mode=mode)
    reports = play(rule, curves)
    best = min(range(40), key=lambda n: sign * curves[n][-1])
    assert max(epoch for number, epoch, _ in reports if number == best) == 10
    assert len(rule.stopped) > 20
    assert len(reports) < 250


def test_nothing_is_stopped_before_peers_came_further_nor_before_the_grace_period() -> None:
    reports = play(scheduler(ForecastSettings(max_t=10, peers=50)), falling(40))
    assert len(reports) == 400
    rule = scheduler(ForecastSettings(max_t=10, grace_period=5))
    reports = play(rule, falling(40))
    assert rule.stopped
    assert all(max(e for m, e, _ in reports if m == int(n)) >= 5 for n in rule.stopped)


def test_curves_that_are_all_the_same_go_on() -> None:
    rule = scheduler()
    play(rule, [[0.5] * 10 for _ in range(12)])
    assert rule.stopped == set()


@pytest.mark.parametrize("mode", ["min", "max"])
def test_forecasts_are_in_the_units_of_the_objective(mode: Literal["min", "max"]) -> None:
    sign = 1 if mode == "min" else -1
    rule = scheduler(mode=mode)
    play(rule, [[sign * value for value in curve] for curve in falling(40)])
    for trial_id in rule.stopped:
        last = list(rule.forecasts(trial_id).values())[-1]
        assert last["low"] <= last["end"] <= last["high"]
        assert sign * last["end"] > 0
        assert 0 <= last["chance"] < last["chance_of_new"] <= 1
    assert rule.forecasts("99999") == {}


def test_a_report_that_comes_again_changes_nothing() -> None:
    once, twice = (Forecasts(Objective(metric="m"), max_t=10, grace=1, peers=3) for _ in range(2))
    for epoch in range(1, 11):
        for number, curve in enumerate(falling(8)):
            answer = once.goes_on(str(number), epoch, curve[epoch - 1])
            assert twice.goes_on(str(number), epoch, curve[epoch - 1]) == answer
            twice.goes_on(str(number), epoch, 99.0)
    assert once.made == twice.made


def test_a_journal_cut_anywhere_leads_to_the_same_decisions(tmp_path: Any) -> None:
    whole = scheduler()
    reports = play(whole, falling(40))
    assert whole.stopped
    for cut in (1, 60, len(reports) - 1):
        writer = Writer(make_folder(tmp_path / f"cut-{cut}"))
        for number, epoch, loss in reports[:cut]:
            if epoch == 1:
                writer.trial(number, [], end=None)
            writer.add(RESULT, trial_id=f"{number:05}", epoch=epoch, metrics={"val_loss": loss})
        writer.kill()
        resumed = scheduler()
        for _ in restored(read(writer.folder), History(), resumed, "val_loss"):
            pass
        for number, epoch, loss in reports[cut:]:
            resumed.record(f"{number:05}", epoch, {"val_loss": loss})
        assert resumed.stopped == whole.stopped
        assert all(resumed.forecasts(i) == whole.forecasts(i) for i in whole.stopped)


def test_forecasts_are_told_beside_the_patience_of_a_trial() -> None:
    rule = scheduler()
    rule.be_patient(20)
    play(rule, falling(40))
    assert rule.stopped
    assert all(rule.forecasts(trial_id) for trial_id in rule.stopped)
