"""What Ray asks of a scheduler: which trials stop, and which come next."""

from __future__ import annotations

import inspect
import pickle
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pytest
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler
from synthetic import Writer, make_folder

from tuner.experiment.events import RESULT
from tuner.experiment.history import History
from tuner.experiment.reading import read
from tuner.search.resuming import restored
from tuner.search.schedulers._stopping import Forecasts, InOrder, Patience, StoppingScheduler
from tuner.search.schedulers.asha import AshaSettings, Brackets
from tuner.search.schedulers.forecast import ForecastSettings
from tuner.spec.sections import Objective
from tuner.trial.trainable import REPORT, RUNS_ON

SETTINGS = AshaSettings(max_t=9, grace_period=1, reduction_factor=3)


def report(asha, trial_id, epoch, value, ray_id="any"):
    trial = SimpleNamespace(trial_id=ray_id, config={"trial_id": trial_id})
    return asha.on_trial_result(None, trial, {"training_iteration": epoch, "m": value})


@pytest.mark.parametrize(("mode", "worse", "better"), [("min", 0.9, 0.1), ("max", 0.1, 0.9)])
def test_the_worse_is_stopped_and_the_better_goes_on(mode, worse, better):
    asha = SETTINGS.build(Objective(metric="m", mode=mode))
    assert report(asha, "00000", 1, 0.5) == TrialScheduler.CONTINUE
    assert report(asha, "00001", 1, worse) == TrialScheduler.STOP
    assert report(asha, "00002", 1, better) == TrialScheduler.CONTINUE
    assert asha.stopped == {"00001"}


def test_on_trial_result_compares_no_whole_trial_whose_code_runs_on():
    asha = SETTINGS.build(Objective(metric="m", mode="min"))
    assert report(asha, "00000", 1, 0.5) == TrialScheduler.CONTINUE
    whole = {"training_iteration": 1, "m": 0.9, f"{REPORT}/{RUNS_ON}": True}
    trial = SimpleNamespace(trial_id="any", config={"trial_id": "00001"})
    assert asha.on_trial_result(None, trial, whole) == TrialScheduler.CONTINUE
    assert not asha.stopped


def test_no_trial_is_stopped_before_the_grace_period():
    asha = SETTINGS.model_copy(update={"grace_period": 3}).build(Objective(metric="m"))
    for number in range(9):
        assert report(asha, f"{number:05}", 2, number) == TrialScheduler.CONTINUE


def test_a_trial_under_a_new_id_of_rays_counts_once():
    asha = SETTINGS.build(Objective(metric="m"))
    report(asha, "00000", 1, 0.5, ray_id="a")
    assert report(asha, "00000", 1, 0.9, ray_id="b") == TrialScheduler.CONTINUE


@pytest.mark.parametrize("scheduler", [InOrder(), SETTINGS.build(Objective(metric="m"))])
def test_no_trial_is_given_the_worker_of_another(scheduler):
    starting = SimpleNamespace(status=Trial.PENDING)
    controller = SimpleNamespace(get_trials=lambda: [starting])
    assert FIFOScheduler().choose_trial_to_run(controller) is starting
    assert scheduler.choose_trial_to_run(controller) is None


def test_recorded_reports_decide_as_live_ones():
    live, replayed = (SETTINGS.build(Objective(metric="m")) for _ in range(2))
    for number, value in enumerate([0.5, 0.9, 0.2, 0.4, 0.1, 0.6]):
        goes_on = report(live, f"{number:05}", 1, value) == TrialScheduler.CONTINUE
        assert replayed.record(f"{number:05}", 1, {"m": value}) == goes_on
    assert live.stopped == replayed.stopped


@pytest.mark.parametrize("brackets", [1, 2, 4])
def test_a_journal_cut_anywhere_leads_to_the_same_decisions(tmp_path, brackets):
    """What was reported before a kill is recorded from the journal, and the rest comes live."""
    settings = AshaSettings(max_t=10, reduction_factor=3, brackets=brackets)
    rng = np.random.default_rng(brackets)
    reports = [
        (number, epoch, float(rng.random())) for epoch in range(1, 10) for number in range(40)
    ]

    def asha():
        return settings.build(Objective(metric="val_loss"), brackets=brackets)

    whole = asha()
    decisions = [whole.record(f"{n:05}", epoch, {"val_loss": loss}) for n, epoch, loss in reports]
    assert 0 < decisions.count(False) < len(decisions)
    for cut in (1, 39, 150, len(reports) - 1):
        writer = Writer(make_folder(tmp_path / f"cut-{cut}"))
        for n, epoch, loss in reports[:cut]:
            if epoch == 1:
                writer.trial(n, [], end=None)
            writer.add(RESULT, trial_id=f"{n:05}", epoch=epoch, metrics={"val_loss": loss})
        writer.kill()
        resumed = asha()
        for _ in restored(read(writer.folder), History(), resumed, "val_loss"):
            pass
        after = [resumed.record(f"{n:05}", e, {"val_loss": loss}) for n, e, loss in reports[cut:]]
        assert after == decisions[cut:]
        assert resumed.stopped == whole.stopped


def test_a_later_bracket_begins_later():
    asha = SETTINGS.build(Objective(metric="m"), brackets=3)
    bracket_of = Brackets(SETTINGS, 3).bracket_of
    stopped = {}
    for number in range(60):
        stopped.setdefault(bracket_of(number), [])
        for epoch in range(1, SETTINGS.max_t):
            if report(asha, f"{number:05}", epoch, number) == TrialScheduler.STOP:
                stopped[bracket_of(number)].append(epoch)
                break
    assert [set(epochs) for _, epochs in sorted(stopped.items())] == [{1}, {3}, set()]


def test_it_pickles():
    asha = SETTINGS.build(Objective(metric="m"))
    report(asha, "00000", 1, 0.5)
    assert report(pickle.loads(pickle.dumps(asha)), "00001", 1, 0.9) == TrialScheduler.STOP


@pytest.mark.parametrize("make", [InOrder, lambda: AshaSettings().build(Objective())])
def test_rays_patience_with_its_workers_at_the_end_is_ours(make):
    """The attribute that is set is the one that Ray reads."""
    from ray.tune.execution.tune_controller import TrialRunnerWrapper, TuneController

    controller = SimpleNamespace(_actor_force_cleanup_timeout=10)
    make().on_trial_add(TrialRunnerWrapper(controller, None), None)
    [name] = vars(controller)
    assert f"self.{name}: int = 10\n" in inspect.getsource(TuneController.__init__)
    assert getattr(controller, name) < 10


def test_a_trial_without_a_better_value_of_its_own_is_stopped():
    alone = StoppingScheduler(Objective(metric="m", mode="max"), Patience(2))
    values = [0.1, 0.3, 0.3, 0.2]
    found = [alone.record("00000", epoch, {"m": value}) for epoch, value in enumerate(values, 1)]
    assert found == [True, True, True, False]
    assert alone.record("00001", 1, {"m": 0.0})  # each by itself
    assert alone.stopped == {"00000"}
    # One that reports again was not stopped: it ran under other settings, before a resume
    assert alone.record("00000", 5, {"m": 0.4})
    assert not alone.stopped


def test_patience_stands_beside_a_rule_that_takes_in_every_report():
    class Rule:
        def __init__(self):
            self.seen = []

        def goes_on(self, trial_id, epoch, loss):
            self.seen.append(epoch)
            return epoch < 4

    rule = Rule()
    both = StoppingScheduler(Objective(metric="m"), rule)
    both.be_patient(1)
    assert [both.record("00000", epoch, {"m": loss}) for epoch, loss in [(1, 3), (2, 2)]] == [
        True
    ] * 2
    assert not both.record("00000", 3, {"m": 2})
    assert not both.record("00000", 4, {"m": 1})  # better, but the rule stops it
    assert rule.seen == [1, 2, 3, 4]


FORECAST = ForecastSettings(max_t=10)
Reports = list[tuple[int, int, float]]  # trial, epoch, value


def scheduler(settings: ForecastSettings = FORECAST, **objective: Any) -> StoppingScheduler:
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
        assert once.forecasts("7") == twice.forecasts("7")


def test_forecasts_of_a_journal_cut_anywhere_lead_to_the_same_decisions(tmp_path: Any) -> None:
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
