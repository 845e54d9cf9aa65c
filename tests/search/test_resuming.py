"""What a resumed experiment goes on from."""

import json

import pytest
from synthetic import Writer, make_folder

from tuner.errors import JournalError, UsageError
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.history import History
from tuner.experiment.reading import read
from tuner.experiment.results.results import Results
from tuner.search.changing import Lengths
from tuner.search.resuming import (
    Extension,
    admit_longer,
    as_begun,
    assignment_of,
    finished,
    in_turn,
    newest_checkpoint,
    restored,
    unfinished,
)
from tuner.search.schedulers._stopping import InOrder, Patience, StoppingScheduler
from tuner.spec.sections import Objective


@pytest.fixture
def writer(tmp_path):
    return Writer(make_folder(tmp_path / "digits"))


def resumed(writer):
    """The history of a killed search, as its resume restores it."""
    writer.kill()
    history = History(metrics=["val_accuracy"])
    for _ in restored(read(writer.folder), history, InOrder(), "val_accuracy"):
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
            self.seen, self.stopped = [], set()

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


def test_restored_stops_no_trial_at_its_last_epoch(writer):
    writer.trial(0, [0.9, 0.9, 0.9], end=None)
    writer.trial(1, [0.9, 0.9], end=None)
    writer.kill()
    objective = Objective(metric="val_accuracy", mode="max")
    scheduler = StoppingScheduler(objective, Patience(1))
    for _ in restored(read(writer.folder), History(), scheduler, "val_accuracy", Lengths(3)):
        pass
    assert scheduler.stopped == {"00001"}


def test_only_what_a_driver_needs_is_remembered(writer):
    writer.trial(0, [0.1, 0.2], end=None)
    [trial] = unfinished(resumed(writer))
    assert [set(report.metrics) for report in trial.results] == [{"val_accuracy"}] * 2


def test_a_trial_goes_on_from_its_newest_checkpoint(writer):
    trial_id = writer.trial(0, [0.1, 0.2, 0.3], end=None, config={"lr": 0.5})
    writer.checkpoint(trial_id, 1)
    path = writer.checkpoint(trial_id, 2)
    [trial] = unfinished(resumed(writer))
    assignment = assignment_of(ExperimentFolder(writer.folder), trial)
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
    assignment = assignment_of(ExperimentFolder(writer.folder), trial)
    assert (assignment.epoch, assignment.checkpoint) == (0, None)


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


def test_an_extension_changes_what_it_says_and_nothing_else(writer):
    files = ExperimentFolder(writer.folder)
    document = files.document()

    def changed(**more):
        spec = Extension(**more).applied_to(document, files)["spec"]
        return {key: value for key, value in spec.items() if value != document["spec"].get(key)}

    assert Extension().applied_to(document, files) == document
    assert changed(add_samples=3) == {"num_samples": 7}
    assert changed(add_samples=3, changes={"num_samples": 5}) == {"num_samples": 8}
    assert changed(time_budget_s=9.0) == {"time_budget_s": 9.0}
    assert changed(changes={"stop.target": 0.5}) == {"stop": {"target": 0.5}}
    assert changed(notify=("exec:x",)) == {"notify": ["exec:x"]}
    document["spec"]["num_samples"] = None
    with pytest.raises(UsageError, match="a number of samples"):
        changed(add_samples=1)


def test_more_samples_are_more_than_have_begun(writer):
    for number in range(6):  # of four that there are to be: more had begun before that was asked
        writer.trial(number, [0.1])
    writer.add("trial_started", trial_id="00006", config={}, origin="asked")
    writer.add("trial_ended", trial_id="00006", status="interrupted")
    writer.add("trial_started", trial_id="00006", config={})
    writer.kill()
    files = ExperimentFolder(writer.folder)
    extended = Extension(add_samples=3).applied_to(files.document(), files)
    assert extended["spec"]["num_samples"] == 9


LONGER = Extension(changes={"scheduler.max_t": 4})


def lengthened(folder, **scheduler):
    """Make an experiment whose trials had 2 epochs one of 4, as a resume does."""
    path = folder / "experiment.json"
    document = json.loads(path.read_text())
    document["spec"]["scheduler"] |= {"max_t": 2, **scheduler}
    document = LONGER.applied_to(document, ExperimentFolder(folder))
    path.write_text(json.dumps(document))
    return document


def completed(writer, number, values, **how):
    """A trial that saves a checkpoint after each epoch and is completed."""
    trial_id = writer.trial(number, values, end=None)
    for epoch in range(1, len(values) + 1):
        writer.checkpoint(trial_id, epoch)
    writer.add("trial_ended", trial_id=trial_id, status="completed", **how)
    return trial_id


def test_what_was_completed_at_a_shorter_length_goes_on_the_best_first(writer):
    completed(writer, 0, [0.1, 0.2])
    completed(writer, 1, [0.1, 0.4])
    completed(writer, 2, [0.1, 0.9], done=True)
    writer.trial(3, [0.1], end="interrupted")
    writer.end()
    lengths = Lengths(4, frozenset({2}))
    objective = Objective(metric="val_accuracy", mode="max")
    history = History(objective)
    for _ in restored(read(writer.folder), history, InOrder(), "val_accuracy", lengths):
        pass
    left = unfinished(history)
    assert [t.trial_id for t in in_turn(left, lengths, objective)] == ["00003", "00001", "00000"]
    assert history.counts == {"completed": 1, "interrupted": 3, "running": 0}
    assignment = assignment_of(ExperimentFolder(writer.folder), history.trials["00001"])
    assert assignment.epoch == 2


def test_a_change_that_was_written_before_a_kill_has_something_left(writer):
    trial_id = completed(writer, 0, [0.1, 0.2])
    writer.end()
    lengthened(writer.folder)
    assert finished(writer.folder, Extension()) is None
    assert finished(writer.folder, LONGER) is None  # given once more
    again = Writer(writer.folder, resumed=True)
    again.trial(0, [0.3, 0.4], first=3)
    again.end()
    for more in (Extension(), LONGER):
        assert finished(writer.folder, more).trials[trial_id].last_epoch == 4


def test_a_search_that_has_its_target_goes_on_under_another_alone(writer):
    writer.trial(0, [0.5])
    writer.add("experiment_ended", status="completed", reason="target")
    writer.kill()
    document = ExperimentFolder(writer.folder).document()
    document["spec"]["stop"] = {"target": 0.4}
    (writer.folder / "experiment.json").write_text(json.dumps(document))
    for more in (Extension(), Extension(add_samples=1), Extension(changes={"stop.target": 0.45})):
        assert finished(writer.folder, more) is not None
    for target in (0.6, None):
        assert finished(writer.folder, Extension(changes={"stop.target": target})) is None


def test_longer_trials_are_refused_where_none_can_be_trained_further(writer):
    writer.trial(0, [0.1, 0.2])
    completed(writer, 1, [0.1, 0.2], done=True)
    writer.end()
    results, lengths = Results(writer.folder), Lengths(4, frozenset({2}))
    told = "no trial of digits can be trained to 4 epochs: of the 2 that were completed 1 came to"
    with pytest.raises(UsageError, match=told):
        admit_longer(results, lengths, total=2)
    admit_longer(results, lengths, total=3)  # there is one to come
    again = Writer(writer.folder, resumed=True)
    completed(again, 2, [0.1, 0.2])
    again.end()
    admit_longer(Results(writer.folder), lengths, total=2)


def test_a_trial_keeps_its_own_seed(writer):
    writer.add("trial_started", trial_id="00000", config={"lr": 0.1}, seed=9)
    writer.add("result", trial_id="00000", epoch=1, metrics={"val_accuracy": 0.5})
    (trial,) = unfinished(resumed(writer))
    assert assignment_of(ExperimentFolder(writer.folder), trial).seed == 9
    again = Writer(writer.folder, resumed=True)
    again.checkpoint("00000", 1)
    (trial,) = unfinished(resumed(again))
    assignment = assignment_of(ExperimentFolder(writer.folder), trial)
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
