"""What Ray asks of a scheduler: which trials stop, and which come next."""

import inspect
from types import SimpleNamespace

import numpy as np
import pytest
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler
from synthetic import Writer, make_folder

from tuner.experiment.changes import Lengths
from tuner.experiment.events import RESULT
from tuner.experiment.history import History
from tuner.experiment.reading import read
from tuner.search.replay import replay_events
from tuner.search.schedulers._stopping import InOrder, Patience, StoppingScheduler
from tuner.search.schedulers.asha import AshaSettings
from tuner.spec.sections import Objective
from tuner.trial.trainable import REPORT, RUNS_ON

SETTINGS = AshaSettings(max_t=9, grace_period=1, reduction_factor=3)


def asha_of(settings=SETTINGS, mode="min", **how):
    return settings.build(Objective(metric="m", mode=mode), **how)


def goes_on(scheduler, number, epoch, value, ray_id="any", **more):
    """The answer to Ray."""
    trial = SimpleNamespace(trial_id=ray_id, config={"trial_id": f"{number:05}"})
    result = {"training_iteration": epoch, "m": value, **more}
    return scheduler.on_trial_result(None, trial, result) == TrialScheduler.CONTINUE


@pytest.mark.parametrize(
    ("mode", "worse", "better"), [("min", 0.9, 0.1), ("max", 0.1, 0.9)]
)
def test_on_trial_result_stops_the_worse_trial(mode, worse, better):
    asha = asha_of(mode=mode)
    answers = [
        goes_on(asha, number, 1, value)
        for number, value in enumerate((0.5, worse, better))
    ]
    assert answers == [True, False, True]
    assert asha.stopped == {"00001"}


def test_reports_beyond_the_limits_count_as_the_worst_within():
    objective = Objective(metric="m", mode="min", limits=("size < 9",))
    asha = SETTINGS.build(objective)
    assert goes_on(asha, 0, 1, 0.0, size=9)  # nothing to compare it with
    assert [
        goes_on(asha, n, 1, value, size=1) for n, value in ((1, 0.5), (2, 0.4))
    ] == [True, True]
    assert not goes_on(asha, 3, 1, 0.0, size=9)
    assert goes_on(asha, 4, 1, 0.3, size=1)


def test_on_trial_result_compares_no_whole_trial_whose_code_runs_on():
    asha = asha_of()
    assert goes_on(asha, 0, 1, 0.5)
    assert goes_on(asha, 1, 1, 0.9, **{f"{REPORT}/{RUNS_ON}": True})
    assert not asha.stopped


@pytest.mark.parametrize("scheduler", [InOrder(), asha_of()])
def test_choose_trial_to_run_gives_no_trial_the_worker_of_another(scheduler):
    starting = SimpleNamespace(status=Trial.PENDING)
    controller = SimpleNamespace(get_trials=lambda: [starting])
    assert FIFOScheduler().choose_trial_to_run(controller) is starting
    assert scheduler.choose_trial_to_run(controller) is None


@pytest.mark.parametrize("make", [InOrder, asha_of])
def test_on_trial_add_sets_the_patience_that_ray_reads(make):
    from ray.tune.execution.tune_controller import TrialRunnerWrapper, TuneController

    controller = SimpleNamespace(_actor_force_cleanup_timeout=10)
    make().on_trial_add(TrialRunnerWrapper(controller, None), None)
    [name] = vars(controller)
    assert f"self.{name}: int = 10\n" in inspect.getsource(TuneController.__init__)
    assert getattr(controller, name) < 10


def test_patience_stops_a_trial_that_does_not_improve():
    alone = StoppingScheduler(Objective(metric="m", mode="max"), Patience(2))
    values = enumerate([0.1, 0.3, 0.3, 0.2], start=1)
    answers = [alone.record("00000", epoch, {"m": value}) for epoch, value in values]
    assert answers == [True, True, True, False]
    assert alone.record("00001", 1, {"m": 0.0})  # each by itself
    assert alone.stopped == {"00000"}
    # One that reports again went on under other settings, before a resume
    assert alone.record("00000", 5, {"m": 0.4})
    assert not alone.stopped


def test_patience_counts_improvement_beyond_the_limits():
    objective = Objective(metric="m", mode="min", limits=("ms <= 20",))
    alone = StoppingScheduler(objective, Patience(2))
    reports = [
        (0.9, 10),
        (0.8, 30),
        (0.7, 30),
        (0.6, 30),
        (0.5, 10),
        (0.5, 30),
        (0.5, 30),
    ]
    answers = [
        alone.record("00000", epoch, {"m": loss, "ms": ms})
        for epoch, (loss, ms) in enumerate(reports, start=1)
    ]
    assert answers == [True] * 6 + [False]
    beyond = StoppingScheduler(objective, Patience(2))  # of all trials
    answers = [
        beyond.record("00000", epoch, {"m": 0.5, "ms": 30}) for epoch in (1, 2, 3)
    ]
    assert answers == [True, True, False]


def test_rules_each_take_in_every_report_and_any_may_stop():
    seen = []
    rule = SimpleNamespace(
        goes_on=lambda trial_id, epoch, loss: seen.append(epoch) or epoch < 4
    )
    both = StoppingScheduler(Objective(metric="m"), rule)
    both.rules.append(Patience(1))
    # The last is better, but the rule stops it
    reports = [(1, 3), (2, 2), (3, 2), (4, 1)]
    answers = [both.record("00000", epoch, {"m": loss}) for epoch, loss in reports]
    assert answers == [True, True, False, False]
    assert seen == [1, 2, 3, 4]


def play(rule, curves, at_once=4):
    """Report the curves, `at_once` trials at a time, while the rule lets them go on."""
    reports = []
    waiting = list(enumerate(curves))
    running = {}
    while waiting or running:
        while waiting and len(running) < at_once:
            number, curve = waiting.pop(0)
            running[number] = iter(enumerate(curve, start=1))
        for number, curve in list(running.items()):
            epoch, value = next(curve, (0, 0.0))
            metrics = {"m": value}
            if epoch:
                reports.append((number, epoch, metrics))
            if not epoch or not rule.record(f"{number:05}", epoch, metrics):
                del running[number]
    return reports


def falling(count, start=1.0):
    """Curves that tell their ends from the third epoch on, and nothing before."""
    ends = np.random.default_rng(1).permutation(np.linspace(0.1, 0.8, count)).tolist()
    return [
        [start if e < 3 else end + (start - end) / e for e in range(1, 11)]
        for end in ends
    ]


def within_limits():
    """ASHA, where the early reports of falling curves are beyond a limit."""
    return SETTINGS.build(Objective(metric="m", mode="min", limits=("m <= 0.9",)))


@pytest.mark.parametrize("make", [asha_of, within_limits])
def test_reports_of_epochs_that_are_run_again_change_no_decision(make):
    again = make()
    once = make()
    decided = {}
    for number, epoch, metrics in play(make(), falling(40)):
        for earlier in range(max(1, epoch - 3), epoch):
            assert again.record(f"{number:05}", earlier, decided[number, earlier])
        decided[number, epoch] = metrics
        report = f"{number:05}", epoch, metrics
        assert again.record(*report) == once.record(*report)
    assert again.stopped == once.stopped != set()


def brackets_of(count):
    settings = AshaSettings(max_t=10, reduction_factor=3, brackets=count)
    return lambda: asha_of(settings, brackets=count)


def interleaved(rule):
    rng = np.random.default_rng(1)
    reports = [
        (n, epoch, {"m": float(rng.random())})
        for epoch in range(1, 10)
        for n in range(40)
    ]
    for number, epoch, metrics in reports:
        rule.record(f"{number:05}", epoch, metrics)
    return reports


@pytest.mark.parametrize("count", [1, 2, 4])
def test_restored_scheduler_decides_as_before_wherever_the_journal_is_cut(
    tmp_path, count
):
    make = brackets_of(count)
    whole = make()
    reports = interleaved(whole)
    assert 0 < len(whole.stopped) < 40
    for cut in {1, 39, 150, len(reports) - 1}:
        writer = Writer(make_folder(tmp_path / f"cut-{cut}"))
        for number, epoch, metrics in reports[:cut]:
            if epoch == 1:
                writer.trial(number, [], end=None)
            writer.add(RESULT, trial_id=f"{number:05}", epoch=epoch, metrics=metrics)
        writer.kill()
        resumed = make()
        straight = make()
        for _ in replay_events(read(writer.folder), History(), resumed, "m", Lengths()):
            pass
        for index, (number, epoch, metrics) in enumerate(reports):
            report = f"{number:05}", epoch, metrics
            answer = straight.record(*report)
            assert index < cut or resumed.record(*report) == answer
        assert resumed.stopped == whole.stopped
