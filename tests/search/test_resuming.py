"""What a resumed experiment goes on from."""

import pytest
from synthetic import Writer, make_folder

from tuner.errors import JournalError, UsageError
from tuner.record.folder import ExperimentFolder
from tuner.record.history import History
from tuner.record.reading import read
from tuner.search.resuming import (
    Extension,
    as_begun,
    assignment_of,
    finished,
    newest_checkpoint,
    restored,
    unfinished,
)


@pytest.fixture
def writer(tmp_path):
    return Writer(make_folder(tmp_path / "digits"))


def resumed(writer, scheduler=None):
    """The history of a killed search, as its resume restores it."""
    writer.kill()
    history = History(metrics=["val_accuracy"])
    for _ in restored(read(writer.folder), history, scheduler, "val_accuracy"):
        pass
    return history


def test_a_new_experiment_has_nothing_to_go_on_with():
    assert unfinished(History()) == []


def test_ended_trials_are_left_alone_and_the_others_come_in_order_of_creation(writer):
    writer.trial(0, [0.1])
    writer.trial(4, [0.1], end=None)
    writer.trial(1, [0.1], end="stopped")
    writer.trial(2, [0.1], error=("nan", "m"))
    writer.trial(3, [], end="interrupted")
    history = resumed(writer)
    assert [trial.trial_id for trial in unfinished(history)] == ["00003", "00004"]
    last = {trial_id: trial.last_epoch for trial_id, trial in history.trials.items()}
    assert last == {"00000": 1, "00001": 1, "00002": 1, "00003": 0, "00004": 1}


def test_a_scheduler_and_a_searcher_see_reports_in_the_order_of_the_journal(writer):
    class Scheduler:
        def __init__(self):
            self.seen = []

        def record(self, trial_id, epoch, metrics):
            self.seen.append((trial_id, epoch, metrics["val_accuracy"]))
            return True

    writer.trial(1, [0.1, 0.2], end=None)
    writer.trial(0, [0.3])
    writer.kill()
    events = list(read(writer.folder))
    scheduler = Scheduler()
    assert list(restored(events, History(), scheduler, "val_accuracy")) == events
    assert scheduler.seen == [("00001", 1, 0.1), ("00001", 2, 0.2), ("00000", 1, 0.3)]


def test_only_what_a_driver_needs_is_remembered(writer):
    writer.trial(0, [0.1, 0.2], end=None)
    [trial] = unfinished(resumed(writer))
    assert [set(report.metrics) for report in trial.results] == [{"val_accuracy"}] * 2


def test_a_trial_goes_on_from_its_newest_checkpoint(writer):
    trial_id = writer.trial(0, [0.1, 0.2, 0.3], end=None, config={"lr": 0.5})
    writer.checkpoint(trial_id, 1)
    path = writer.checkpoint(trial_id, 2)
    [trial] = unfinished(resumed(writer))
    assignment, warnings = assignment_of(ExperimentFolder(writer.folder), trial)
    assert warnings == []
    assert (assignment.trial_id, assignment.config, assignment.epoch) == ("00000", {"lr": 0.5}, 2)
    assert assignment.reported == trial.last_epoch == 3
    assert assignment.checkpoint["path"] == path.relative_to(writer.folder).as_posix()


def test_a_damaged_checkpoint_is_told_and_passed_over(writer):
    trial_id = writer.trial(0, [0.1, 0.2, 0.3], end=None)
    for epoch in (1, 2, 3):
        path = writer.checkpoint(trial_id, epoch)
    path.write_bytes(b"half")
    (path.parent.parent / "2" / "state.pt").unlink()
    [trial] = unfinished(resumed(writer))
    checkpoint, wrong = newest_checkpoint(ExperimentFolder(writer.folder), trial)
    assert checkpoint.epoch == 1
    assert ["is not what was written" in wrong[0], "is missing" in wrong[1]] == [True, True]


def test_without_a_whole_checkpoint_it_begins_anew(writer):
    writer.trial(0, [0.1], end=None)
    [trial] = unfinished(resumed(writer))
    assignment, warnings = assignment_of(ExperimentFolder(writer.folder), trial)
    assert (assignment.epoch, assignment.checkpoint, warnings) == (0, None, [])


def test_a_checkpoint_ahead_of_its_report_is_not_used(writer):
    trial_id = writer.trial(0, [0.1], end=None)
    writer.checkpoint(trial_id, 1)
    writer.checkpoint(trial_id, 2)
    [trial] = unfinished(resumed(writer))
    assert newest_checkpoint(ExperimentFolder(writer.folder), trial)[0].epoch == 1


def test_a_report_without_the_objective_is_damage(writer):
    writer.add("trial_started", trial_id="00001", config={})
    writer.add("result", trial_id="00001", epoch=3, metrics={"x": 1})
    with pytest.raises(JournalError, match="of trial 00001, epoch 3, lacks the objective 'val_acc"):
        resumed(writer)


def test_failed_trials_go_on_when_asked(writer):
    writer.trial(0, [0.1], end="completed")
    writer.trial(1, [0.1], error=("crash", "m"))
    history = resumed(writer)
    assert unfinished(history) == []
    assert [t.trial_id for t in unfinished(history, retry_failed=True)] == ["00001"]


def test_an_extension_changes_what_it_says_and_nothing_else():
    raw = {"num_samples": 4, "seed": 1}
    assert Extension().applied_to(raw) == raw
    assert Extension(add_samples=3).applied_to(raw) == {"num_samples": 7, "seed": 1}
    assert Extension(time_budget_s=9.0).applied_to(raw) == {**raw, "time_budget_s": 9.0}
    assert [Extension().changes_the_spec, Extension(1).changes_the_spec] == [False, True]
    with pytest.raises(UsageError, match="a number of samples"):
        Extension(add_samples=1).applied_to({"num_samples": None})


def test_a_trial_keeps_its_own_seed(writer):
    writer.add("trial_started", trial_id="00000", config={"lr": 0.1}, seed=9)
    writer.add("result", trial_id="00000", epoch=1, metrics={"val_accuracy": 0.5})
    (trial,) = unfinished(resumed(writer))
    assert assignment_of(ExperimentFolder(writer.folder), trial)[0].seed == 9
    again = Writer(writer.folder, resumed=True)
    again.checkpoint("00000", 1)
    (trial,) = unfinished(resumed(again))
    assignment = assignment_of(ExperimentFolder(writer.folder), trial)[0]
    assert (assignment.epoch, assignment.seed) == (1, 9)


def test_checkpoints_are_remembered_only_of_trials_that_may_go_on(writer):
    ends = {0: "completed", 1: "stopped", 2: "interrupted", 3: "failed", 4: None}
    for number, end in ends.items():
        trial_id = writer.trial(number, [0.1], end=None)
        writer.checkpoint(trial_id, 1)
        error = {"error": {"kind": "oom", "message": "m"}} if end == "failed" else {}
        if end:
            writer.add("trial_ended", trial_id=trial_id, status=end, **error)
    kept = [len(trial.checkpoints) for trial in resumed(writer).trials.values()]
    assert kept == [0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("more", "is_over"),
    [
        (Extension(), True),
        (Extension(add_samples=1), False),
        (Extension(time_budget_s=9.0), False),
        (Extension(retry_failed=True), False),
    ],
)
def test_nothing_is_left_of_what_has_completed_unless_more_is_asked_for(writer, more, is_over):
    writer.trial(0, [0.1])
    writer.trial(1, error=("oom", "m"))
    writer.end()
    assert (finished(writer.folder, more) is not None) == is_over


@pytest.mark.parametrize(
    "end",
    [
        {"status": "interrupted"},
        {"status": "failed"},
        {"status": "completed", "reason": "time_budget", "never_started": 2},
    ],
)
def test_what_was_cut_short_has_something_left(writer, end):
    writer.trial(0, [0.1])
    writer.add("experiment_ended", **end)
    writer.kill()
    assert finished(writer.folder, Extension()) is None


def test_a_trial_that_had_not_ended_is_left(writer):
    writer.trial(0, [0.1], end="interrupted")
    writer.end()  # as searches that were out of time were journaled before
    assert finished(writer.folder, Extension()) is None


def test_what_a_kill_left_without_an_end_is_no_end(writer):
    writer.trial(0, [0.1])
    writer.kill()
    assert finished(writer.folder, Extension()) is None
    writer.folder.joinpath("journal.jsonl").unlink()
    assert finished(writer.folder, Extension()) is None


def test_a_grid_that_was_begun_in_rows_goes_on_so():
    old, new = ({"search": {"strategy": "grid", **own}} for own in ({}, {"order": "spread"}))
    assert as_begun(old)["search"] == {"strategy": "grid", "order": "rows"}
    assert as_begun(new) == new
    assert as_begun({"search": {"strategy": "random"}}) == {"search": {"strategy": "random"}}
