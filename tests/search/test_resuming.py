"""What a resumed experiment goes on from."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from synthetic import Writer, make_folder, read_document

from tuner.errors import JournalError, UsageError
from tuner.experiment.changes import Lengths
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.history import History
from tuner.experiment.reading import read
from tuner.reporting.experiment_text import explain_completion
from tuner.search.resuming import (
    Extension,
    build_assignment,
    list_unfinished,
    load_if_finished,
    replay_events,
    resolve_trainable,
    sort_unfinished,
)
from tuner.search.schedulers._stopping import InOrder, Patience, StoppingScheduler
from tuner.spec.experiment import parse_trainable
from tuner.spec.sections import Objective

OBJECTIVE = Objective(metric="val_accuracy", mode="max")
LONGER = Extension(changes={"scheduler.max_t": 4})


@pytest.fixture
def writer(tmp_path):
    return Writer(make_folder(tmp_path / "digits"))


@pytest.fixture
def files(writer):
    return ExperimentFolder(writer.folder)


def resumed(writer, *, scheduler=None, lengths=None, objective=None):
    """The history of a killed search, as its resume restores it."""
    writer.kill()
    history = History(objective, metrics=["val_accuracy"])
    lengths = lengths or Lengths()
    events = list(read(writer.folder))
    passed = replay_events(events, history, scheduler or InOrder(), "val_accuracy", lengths)
    assert list(passed) == events
    return history


def lengthened(folder, **scheduler):
    """Change an experiment whose trials had 2 epochs to one of 4, as a resume does."""
    path = folder / "experiment.json"
    document = read_document(path)
    document["spec"]["scheduler"] |= {"max_t": 2, **scheduler}
    document = LONGER.apply(document, ExperimentFolder(folder))
    path.write_text(json.dumps(document))


def saved(writer, number, values, *, end=None, **how):
    """A trial that saves a checkpoint after each epoch."""
    trial_id = writer.trial(number, values, end=None)
    for epoch in range(1, len(values) + 1):
        writer.checkpoint(trial_id, epoch)
    if end:
        writer.add("trial_ended", trial_id=trial_id, status=end, **how)
    return trial_id


def test_trainable_of_takes_the_recorded_or_an_equal_trainable(snapshot):
    folder = Path("results/e")
    assert resolve_trainable("json:dumps", None, folder) == "json:dumps"
    assert resolve_trainable("json:dumps", json.dumps, folder) == "json:dumps"
    passed = parse_trainable(lambda config: None)
    by_value = "__main__:<lambda> (by value)"
    assert resolve_trainable(by_value, passed, folder) == passed
    for recorded, trainable in (("json:dumps", "json:loads"), (by_value, "json:loads")):
        with snapshot.raises(UsageError):
            resolve_trainable(recorded, trainable, folder)
    with snapshot.raises(UsageError):
        resolve_trainable(by_value, None, folder)


def test_unfinished_are_trials_without_an_end_in_order_of_creation(writer):
    assert list_unfinished(History()) == []
    writer.trial(0, [0.1])
    writer.trial(4, [0.1], end=None)
    writer.trial(1, [0.1], end="stopped")
    writer.trial(2, [0.1], error=("nan", "m"))
    writer.trial(3, [], end="interrupted")
    history = resumed(writer)
    assert [trial.trial_id for trial in list_unfinished(history)] == ["00003", "00004"]
    assert [trial.trial_id for trial in list_unfinished(history, retry_failed=True)] == [
        "00002",
        "00003",
        "00004",
    ]
    last = {trial_id: trial.last_epoch for trial_id, trial in history.trials.items()}
    assert last == {"00000": 1, "00001": 1, "00002": 1, "00003": 0, "00004": 1}


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
    assert history.trials["00001"].results[1].metrics == {"val_accuracy": 0.2}  # the objective's


def test_restored_refuses_a_report_without_the_objective(snapshot, writer):
    writer.add("trial_started", trial_id="00001", config={})
    writer.add("result", trial_id="00001", epoch=3, metrics={"x": 1})
    with snapshot.raises(JournalError):
        resumed(writer)


def test_restored_keeps_checkpoints_only_of_trials_that_may_go_on(writer):
    for number, end in enumerate(("completed", "stopped", "interrupted", "failed", None)):
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


def test_assignment_of_a_trial_without_a_checkpoint_begins_anew_with_its_seed(writer, files):
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


def test_assignment_of_warns_of_damaged_checkpoints_and_goes_back(writer, files, caplog):
    trial_id = writer.trial(0, [0.1, 0.2, 0.3], end=None)
    for epoch in (1, 2, 3):
        path = writer.checkpoint(trial_id, epoch)
    path.write_bytes(b"half")
    (path.parent.parent / "2/state.pt").unlink()
    [trial] = list_unfinished(resumed(writer))
    assert build_assignment(files, trial).epoch == 1
    newest, before = caplog.messages
    assert ("is not what was written" in newest, "is missing" in before) == (True, True)


def test_assignment_of_ignores_a_checkpoint_without_its_report(writer, files):
    trial_id = writer.trial(0, [0.1], end=None)
    for epoch in (1, 2):
        writer.checkpoint(trial_id, epoch)
    [trial] = list_unfinished(resumed(writer))
    assert build_assignment(files, trial).epoch == 1


@pytest.mark.parametrize(
    ("more", "changes"),
    [
        ({}, {}),
        ({"add_samples": 3}, {"num_samples": 7}),
        ({"add_samples": 3, "changes": {"num_samples": 5}}, {"num_samples": 8}),
        ({"time_budget_s": 9.0}, {"time_budget_s": 9.0}),
        ({"changes": {"stop.target": 0.5}}, {"stop": {"target": 0.5}}),
        ({"notify": ("https://x",)}, {"notify": ["https://x"]}),
    ],
)
def test_extension_changes_only_its_keys(files, more, changes):
    document = files.read_document()
    spec = Extension(**more).apply(document, files)["spec"]
    assert spec == document["spec"] | changes


def test_extension_adds_samples_to_those_that_have_begun(snapshot, writer, files):
    for number in range(6):  # of four: more had begun before a control made them fewer
        writer.trial(number, [0.1])
    writer.add("trial_started", trial_id="00006", config={}, origin="asked")
    writer.add("trial_ended", trial_id="00006", status="interrupted")
    writer.add("trial_started", trial_id="00006", config={})
    writer.kill()
    document = files.read_document()
    extension = Extension(add_samples=3)
    assert extension.apply(document, files)["spec"]["num_samples"] == 9
    document["spec"]["num_samples"] = None
    with snapshot.raises(UsageError):
        extension.apply(document, files)


@pytest.mark.parametrize(
    ("more", "is_over"),
    [
        (Extension(), True),
        (Extension(add_samples=1), False),
        (Extension(time_budget_s=9.0), False),
        (Extension(retry_failed=True), False),
    ],
)
def test_finished_of_a_completed_search_depends_on_its_extension(writer, more, is_over):
    writer.trial(0, [0.1])
    writer.trial(1, error=("oom", "m"))
    writer.end()
    assert (load_if_finished(writer.folder, more) is not None) == is_over


@pytest.mark.parametrize(
    ("status", "end"),
    [
        ("completed", None),
        ("completed", {"status": "interrupted"}),
        ("completed", {"status": "failed"}),
        ("completed", {"status": "completed", "reason": "time_budget", "never_started": 2}),
    ],
)
def test_finished_of_a_search_that_was_cut_short_is_none(writer, status, end):
    writer.trial(0, [0.1], end=status)
    if end:
        writer.add("experiment_ended", **end)
    writer.kill()
    assert load_if_finished(writer.folder, Extension()) is None


def test_finished_after_a_change_before_a_kill_is_none_until_trials_are_longer(writer):
    trial_id = saved(writer, 0, [0.1, 0.2], end="completed")
    writer.end()
    lengthened(writer.folder)
    for more in (Extension(), LONGER):
        assert load_if_finished(writer.folder, more) is None
    again = Writer(writer.folder, resumed=True)
    again.trial(0, [0.3, 0.4], first=3)
    again.end()
    for more in (Extension(), LONGER):
        assert load_if_finished(writer.folder, more).trials[trial_id].last_epoch == 4


@pytest.mark.parametrize(
    ("reason", "value", "over", "left"),
    [
        (
            "target",
            0.4,
            (Extension(add_samples=1), Extension(changes={"stop.target": 0.45})),
            [Extension(changes={"stop.target": target}) for target in (0.6, None)],
        ),
        (
            "utility",
            0.4,
            (),
            (Extension(changes={"stop.utility": 0.3}), Extension(retry_failed=True)),
        ),
    ],
)
def test_finished_of_a_search_that_its_rule_ended_is_none_only_under_changes(
    writer, files, reason, value, over, left
):
    writer.trial(0, [0.5], end="completed" if reason == "target" else "interrupted")
    writer.add("experiment_ended", status="completed", reason=reason)
    writer.kill()
    document = files.read_document()
    document["spec"]["stop"] = {reason: value}
    (writer.folder / "experiment.json").write_text(json.dumps(document))
    for more in (Extension(), *over):
        assert load_if_finished(writer.folder, more) is not None
    for more in left:
        assert load_if_finished(writer.folder, more) is None
    if reason == "utility":
        text = explain_completion(load_if_finished(writer.folder, Extension()))
        assert "expects little more, nothing is left to do; for smaller gains: " in text
