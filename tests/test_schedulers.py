"""ASHA and the end of the search, as Ray asks them; the arithmetic is in test_rungs."""

import os
import pickle
from types import SimpleNamespace

import pytest
from ray.tune.schedulers import TrialScheduler

from tuner.schedulers import Asha, StopAll
from tuner.spec import AshaSettings, Objective

SETTINGS = AshaSettings(max_t=9, grace_period=1, reduction_factor=3)


def report(asha, trial_id, epoch, value, ray_id="any"):
    trial = SimpleNamespace(trial_id=ray_id, config={"trial_id": trial_id})
    return asha.on_trial_result(None, trial, {"training_iteration": epoch, "m": value})


@pytest.mark.parametrize(("mode", "worse", "better"), [("min", 0.9, 0.1), ("max", 0.1, 0.9)])
def test_the_worse_is_stopped_and_the_better_goes_on(mode, worse, better):
    asha = Asha(SETTINGS, Objective(metric="m", mode=mode))
    assert report(asha, "00000", 1, 0.5) == TrialScheduler.CONTINUE
    assert report(asha, "00001", 1, worse) == TrialScheduler.STOP
    assert report(asha, "00002", 1, better) == TrialScheduler.CONTINUE
    assert asha.stopped == {"00001"}


def test_no_trial_is_stopped_before_the_grace_period():
    asha = Asha(SETTINGS.model_copy(update={"grace_period": 3}), Objective(metric="m"))
    for number in range(9):
        assert report(asha, f"{number:05}", 2, number) == TrialScheduler.CONTINUE


def test_a_trial_under_a_new_id_of_rays_counts_once():
    asha = Asha(SETTINGS, Objective(metric="m"))
    report(asha, "00000", 1, 0.5, ray_id="a")
    assert report(asha, "00000", 1, 0.9, ray_id="b") == TrialScheduler.CONTINUE


def test_recorded_reports_decide_as_live_ones():
    live, replayed = (Asha(SETTINGS, Objective(metric="m")) for _ in range(2))
    for number, value in enumerate([0.5, 0.9, 0.2, 0.4, 0.1, 0.6]):
        goes_on = report(live, f"{number:05}", 1, value) == TrialScheduler.CONTINUE
        assert replayed.record(f"{number:05}", 1, {"m": value}) == goes_on
    assert live.stopped == replayed.stopped


def test_it_pickles():
    asha = Asha(SETTINGS, Objective(metric="m"))
    report(asha, "00000", 1, 0.5)
    assert report(pickle.loads(pickle.dumps(asha)), "00001", 1, 0.9) == TrialScheduler.STOP


def test_what_stop_all_looks_at_need_not_pickle():
    with open(os.devnull) as stream:
        pickle.dumps(StopAll(lambda: stream.closed))


def test_stop_all_ends_all_trials_or_none():
    over = False
    stopper = StopAll(lambda: over)
    assert (stopper("x", {}), stopper.stop_all()) == (False, False)
    over = True
    assert (stopper("x", {}), stopper.stop_all()) == (False, True)
