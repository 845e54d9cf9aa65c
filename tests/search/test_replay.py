"""What a resume takes up from the journal: states, unfinished trials, and their checkpoints."""

from types import SimpleNamespace

from synthetic import Writer

from tuner.errors import JournalError
from tuner.experiment.changes import Lengths
from tuner.experiment.history import History
from tuner.experiment.reading import read
from tuner.search.replay import list_unfinished, replay_events, sort_unfinished
from tuner.search.retention import build_assignment
from tuner.search.schedulers._stopping import InOrder, Patience, StoppingScheduler
from tuner.spec.sections import Objective

OBJECTIVE = Objective(metric="val_accuracy", mode="max")


def resumed(writer, *, scheduler=None, lengths=None, objective=None):
    """The history of a killed search, as its resume restores it."""
    writer.kill()
    history = History(objective, metrics=["val_accuracy"])
    lengths = lengths or Lengths()
    events = list(read(writer.folder))
    passed = replay_events(
        events, history, scheduler or InOrder(), "val_accuracy", lengths
    )
    assert list(passed) == events
    return history


def saved(writer, number, values, *, end=None, **how):
    """A trial that saves a checkpoint after each epoch."""
    trial_id = writer.trial(number, values, end=None)
    for epoch in range(1, len(values) + 1):
        writer.checkpoint(trial_id, epoch)
    if end:
        writer.add("trial_ended", trial_id=trial_id, status=end, **how)
    return trial_id


def test_unfinished_are_trials_without_an_end_in_order_of_creation(writer):
    assert list_unfinished(History()) == []
    writer.trial(0, [0.1])
    writer.trial(4, [0.1], end=None)
    writer.trial(1, [0.1], end="stopped")
    writer.trial(2, [0.1], error=("nan", "m"))
    writer.trial(3, [], end="interrupted")
    history = resumed(writer)
    unfinished = [
        (trial.trial_id, trial.last_epoch) for trial in list_unfinished(history)
    ]
    assert unfinished == [("00003", 0), ("00004", 1)]
    retried = [trial.trial_id for trial in list_unfinished(history, retry_failed=True)]
    assert retried == ["00002", "00003", "00004"]


def test_restored_stops_no_trial_at_its_last_epoch(writer):
    writer.trial(0, [0.9, 0.9, 0.9], end=None)
    writer.trial(1, [0.9, 0.9], end=None)
    scheduler = StoppingScheduler(OBJECTIVE, Patience(1))
    resumed(writer, scheduler=scheduler, lengths=Lengths(3))
    assert scheduler.stopped == {"00001"}


def test_restored_records_reports_in_the_order_of_the_journal(writer):
    seen = []
    rule = SimpleNamespace(goes_on=lambda *report: seen.append(report) or True)
    writer.trial(1, [0.1, {"val_accuracy": 0.2, "val_loss": 1.0}], end=None)
    writer.trial(0, [0.3])
    history = resumed(writer, scheduler=StoppingScheduler(OBJECTIVE, rule))
    assert seen == [("00001", 1, -0.1), ("00001", 2, -0.2), ("00000", 1, -0.3)]
    # The objective's
    assert history.trials["00001"].results[1].metrics == {"val_accuracy": 0.2}


def test_restored_refuses_a_report_without_the_objective(snapshot, writer):
    writer.add("trial_started", trial_id="00001", config={})
    writer.add("result", trial_id="00001", epoch=3, metrics={"x": 1})
    with snapshot.raises(JournalError):
        resumed(writer)


def test_restored_keeps_checkpoints_only_of_trials_that_may_go_on(writer):
    for number, end in enumerate(
        ("completed", "stopped", "interrupted", "failed", None)
    ):
        error = {"error": {"kind": "oom", "message": "m"}} if end == "failed" else {}
        saved(writer, number, [0.1], end=end, **error)
    kept = [len(trial.checkpoints) for trial in resumed(writer).trials.values()]
    assert kept == [0, 0, 1, 1, 1]


def test_restored_reopens_shorter_trials_which_go_on_the_best_first(writer, files):
    saved(writer, 0, [0.1, 0.2], end="completed")
    saved(writer, 1, [0.1, 0.4], end="completed")
    saved(writer, 2, [0.1, 0.9], end="completed", done=True)
    writer.trial(3, [0.1], end="interrupted")
    lengths = Lengths(4, frozenset({2}))
    history = resumed(writer, lengths=lengths, objective=OBJECTIVE)
    left = sort_unfinished(list_unfinished(history), lengths, OBJECTIVE)
    assert [trial.trial_id for trial in left] == ["00003", "00001", "00000"]
    assert history.counts == {"completed": 1, "interrupted": 3, "running": 0}
    assert build_assignment(files, history.trials["00001"]).epoch == 2


def test_assignment_of_a_trial_without_a_checkpoint_begins_anew_with_its_seed(
    writer, files
):
    writer.add("trial_started", trial_id="00000", config={"lr": 0.1}, seed=9)
    writer.add("result", trial_id="00000", epoch=1, metrics={"val_accuracy": 0.5})
    [trial] = list_unfinished(resumed(writer))
    assignment = build_assignment(files, trial)
    assert (assignment.epoch, assignment.checkpoint, assignment.seed) == (0, None, 9)
    again = Writer(writer.folder, resumed=True)
    again.checkpoint("00000", 1)
    [trial] = list_unfinished(resumed(again))
    assignment = build_assignment(files, trial)
    assert (assignment.epoch, assignment.seed) == (1, 9)


def test_assignment_of_warns_of_damaged_checkpoints_and_goes_back(
    snapshot, writer, files, caplog
):
    trial_id = writer.trial(0, [0.1, 0.2, 0.3], end=None)
    for epoch in (1, 2, 3):
        path = writer.checkpoint(trial_id, epoch)
    path.write_bytes(b"half")
    (path.parent.parent / "2/state.pt").unlink()
    [trial] = list_unfinished(resumed(writer))
    assert build_assignment(files, trial).epoch == 1
    snapshot("\n".join(caplog.messages))


def test_assignment_of_ignores_a_checkpoint_without_its_report(writer, files):
    trial_id = writer.trial(0, [0.1], end=None)
    for epoch in (1, 2):
        writer.checkpoint(trial_id, epoch)
    [trial] = list_unfinished(resumed(writer))
    assert build_assignment(files, trial).epoch == 1
