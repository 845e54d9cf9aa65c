"""A machine's clock that is set back: no time and no duration of an experiment goes wrong."""

import itertools
import time

import pytest
from synthetic import OWNER, Clock, Writer, make_folder

from tuner.experiment.clock import steady_clock
from tuner.experiment.events import EXPERIMENT_STARTED, RESULT, TRIAL_ENDED, TRIAL_STARTED
from tuner.experiment.history import fold
from tuner.experiment.journal import Journal
from tuner.experiment.reading import read
from tuner.experiment.results.results import Results
from tuner.reporting.time_left import TimeLeft, elapsed_s

HOUR = 3600.0


@pytest.fixture
def wall(monkeypatch):
    """The machine's clock: what it shows, and the seconds that have really passed."""
    now = {"shown": 1_700_000_000.0, "passed": 50.0}
    monkeypatch.setattr(time, "time", lambda: now["shown"])
    monkeypatch.setattr(time, "clock_gettime", lambda which: now["passed"])
    monkeypatch.setattr(time, "monotonic", lambda: now["passed"])

    def passes(seconds, *, set_by=0.0):
        now["shown"] += seconds + set_by
        now["passed"] += seconds

    return passes


def test_it_starts_with_the_machines_time_and_goes_on_evenly(wall):
    clock = steady_clock()
    assert clock() == 1_700_000_000.0
    wall(10, set_by=-HOUR)
    assert clock() == 1_700_000_010.0
    wall(10, set_by=HOUR * 24)
    assert clock() == 1_700_000_020.0


def test_it_starts_where_the_last_one_was_if_that_is_later(wall):
    assert steady_clock(not_before=1_800_000_000.0)() == 1_800_000_000.0


def run(folder, wall, trial_id, *, resumed):
    """A driver's life of 40 s, in which the clock is set back by an hour."""
    with Journal.open(folder) as journal:
        journal.append(EXPERIMENT_STARTED, resumed=resumed, owner=OWNER)
        journal.append(TRIAL_STARTED, trial_id=trial_id, config={"lr": 0.1})
        for epoch in (1, 2):
            wall(20, set_by=-HOUR / 2)
            metrics = {"val_accuracy": 0.5}
            journal.append(RESULT, trial_id=trial_id, epoch=epoch, metrics=metrics)
        journal.append(TRIAL_ENDED, trial_id=trial_id, status="completed")


def test_times_and_durations_stay_right_within_a_run_and_over_a_resume(wall, tmp_path):
    folder = make_folder(tmp_path / "x")
    run(folder, wall, "00000", resumed=False)
    run(folder, wall, "00001", resumed=True)
    times = [event["time"] for event in read(folder)]
    assert all(a <= b for a, b in itertools.pairwise(times))
    trials = Results(folder).trials.values()
    assert [trial.duration_s for trial in trials] == [40.0, 40.0]
    assert [trial.ended - trial.started for trial in trials] == [40.0, 40.0]


def test_a_view_whose_clock_is_behind_goes_by_the_last_event(wall, tmp_path):
    folder = make_folder(tmp_path / "x")
    run(folder, wall, "00000", resumed=False)
    history = fold(read(folder))
    assert elapsed_s(history, time.time()) == 40.0
    assert TimeLeft(total=2, max_t=2).seconds(history, time.time()) == 40.0


def test_a_journal_whose_times_go_back_has_no_negative_duration(tmp_path):
    writer = Writer(make_folder(tmp_path / "x"), clock=Clock(tick=-1.0))
    writer.trial(1, [0.5])
    writer.end()
    results = Results(writer.folder)
    assert results.history.duration_s == 0.0
    assert results.trials["00001"].duration_s == 0.0
