import pytest
from synthetic import START, Writer, make_folder

from tuner.experiment.results.early_stopping import RungCount, savings_of
from tuner.experiment.results.results import Results

RESOURCES = {"cpus": 2, "gpus": 1, "workers": 2}


def saved(folder, *trials, **spec):
    """What was saved on trials of (epochs, end), whose events are a second apart."""
    writer = Writer(make_folder(folder, resources=RESOURCES, **spec))
    for number, (epochs, end) in enumerate(trials):
        error = ("nan", "m") if end == "failed" else None
        writer.trial(number, [0.5] * epochs, end=end, error=error)
    writer.end()
    results = Results(folder)
    return savings_of(results.spec, results.trials.values())


def test_what_was_stopped_where_and_what_that_saved(tmp_path):
    trials = [(1, "stopped"), (2, "stopped"), (10, "completed"), (1, "failed"), (1, "stopped")]
    found = saved(tmp_path / "x", *trials)
    assert found.rungs == (
        RungCount(1, 5, 2),
        RungCount(2, 2, 1),
        RungCount(4, 1, 0),
        RungCount(8, 1, 0),
    )
    assert [(s.trial_id, s.epoch, s.epochs) for s in found.stops] == [
        ("00000", 1, 9),
        ("00001", 2, 8),
        ("00004", 1, 9),
    ]
    assert found.stops[0].time == START + 4
    assert (found.epochs, found.trained_epochs) == (26, 15)
    assert found.share == pytest.approx(26 / 41)
    # Of n epochs and an end, a second apart: (n + 1) / n seconds an epoch
    seconds = 9 * 2 + 8 * 1.5 + 9 * 2
    assert found.cpu_hours == pytest.approx(seconds / 3600 * 2 * 2)
    assert found.gpu_hours == pytest.approx(seconds / 3600 * 1 * 2)


def test_a_trial_whose_end_was_asked_for_is_none_that_the_scheduler_stopped(tmp_path):
    writer = Writer(make_folder(tmp_path / "x"))
    writer.trial(0, [0.5], end=None)
    writer.add("trial_ended", trial_id="00000", status="stopped", control="1")
    writer.end()
    results = Results(writer.folder)
    found = savings_of(results.spec, results.trials.values())
    assert (found.stops, found.rungs[0].stopped) == ((), 0)


def test_a_length_below_max_t_is_the_full_one(tmp_path):
    found = saved(tmp_path / "x", (1, "stopped"), training={"epochs": 5})
    assert (found.epochs, [rung.epoch for rung in found.rungs]) == (4, [1, 2, 4])


def test_rungs_between_epochs_are_those_at_which_trials_are_judged(tmp_path):
    asha = {"name": "asha", "max_t": 6, "grace_period": 1, "reduction_factor": 1.5}
    found = saved(tmp_path / "x", (3, "stopped"), scheduler=asha)
    rungs = [(rung.epoch, rung.stopped) for rung in found.rungs]
    assert rungs == [(1, 0), (2, 0), (3, 1), (4, 0), (6, 0)]


def test_nothing_stopped_saved_nothing(tmp_path):
    found = saved(tmp_path / "x")
    assert (found.epochs, found.share, found.cpu_hours, found.stops) == (0, None, 0, ())
    assert found.as_dict()["saved_share"] is None


def test_without_a_scheduler_there_is_nothing_to_tell(tmp_path):
    assert saved(tmp_path / "x", (3, "completed"), scheduler=None) is None
