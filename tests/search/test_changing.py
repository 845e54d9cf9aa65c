"""What a resume may change of a spec, and which trials become longer by it."""

import json

import pytest
from synthetic import Writer, make_folder

from tuner.errors import SpecError, UsageError
from tuner.experiment.changes import CHANGES, Change, changes_of
from tuner.experiment.history import fold
from tuner.experiment.reading import read
from tuner.search.changing import Lengths, changed, lengths_of
from tuner.spec.experiment import build_spec
from tuner.spec.sections import Objective


@pytest.fixture
def document(tmp_path):
    folder = make_folder(tmp_path / "digits", resources={"cpus": 1}, storage=str(tmp_path))
    return json.loads((folder / "experiment.json").read_text())


def made(document, **changes):
    return changed(document, {key.replace("__", "."): v for key, v in changes.items()}, name="x")


def faults_of(document, changes):
    with pytest.raises(SpecError) as refused:
        changed(document, changes, name="first one")
    return list(map(str, refused.value.faults))


def test_a_change_is_made_and_what_was_is_kept(document, monkeypatch):
    monkeypatch.setattr("time.time", lambda: 1.0)
    longer = made(document, scheduler__max_t=20)
    assert longer["spec"]["scheduler"]["max_t"] == 20
    was, now = {"scheduler.max_t": 10}, {"scheduler.max_t": 20}
    assert changes_of(longer, "x") == [Change(was, now, 10, 1.0)]
    assert document["spec"]["scheduler"]["max_t"] == 10
    more = made(longer, num_samples=9, stop__target=0.1)
    assert (more["spec"]["num_samples"], more["spec"]["stop"]) == (9, {"target": 0.1})
    assert [change["epochs"] for change in more[CHANGES]] == [10, 20]


def test_what_is_so_already_is_no_change(document):
    longer = made(document, scheduler__max_t=20)
    assert made(longer, scheduler__max_t=20) == longer
    assert made(document, num_samples=4) == document


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num_samples", 2),
        ("max_concurrent", None),
        ("time_budget_s", 60),
        ("stop.patience_epochs", 3),
        ("stop", {"target": 0.1}),
        ("timeouts.report_s", 10),
        ("log", ["mlflow"]),
        ("resources.cpus", 2),
        ("resources.gpus", 0.5),
        ("training.data_dir", "elsewhere"),
    ],
)
def test_what_keeps_the_meaning_of_what_was_recorded_may_change(document, key, value):
    spec = build_spec(changed(document, {key: value}, name="x")["spec"])
    assert isinstance(spec.epochs, int)


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("search.space.lr", "the trials' configs follow from it"),
        ("search.forbid", "the trials' configs follow from it"),
        ("objective.metric", "trials were compared by it"),
        ("scheduler.grace_period", "it decided which trials were stopped"),
        ("training.width", "trials were trained with it"),
        ("resources.workers", "it decides how each batch is divided"),
        ("seed", "configs and weights follow from it"),
        ("checkpoints.every_s", "a resume goes on with what was recorded"),
    ],
)
def test_anything_else_is_refused_with_the_reason_and_the_command(document, key, reason):
    [fault] = faults_of(document, {key: "choice([1, 2])"})
    assert fault.startswith(f"{key}: cannot change on a resume: {reason}")
    assert f"tuner run --like 'first one' '{key}=choice([1, 2])'" in fault
    assert "; available: scheduler.max_t, training.epochs, num_samples" in fault


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("epochs", "did you mean 'scheduler.max_t'?"),
        ("scheduler.maxt", "unknown key 'maxt' (did you mean 'max_t'?)"),
        ("num_sample", "did you mean 'num_samples'?"),
        ("nonsense.a", "unknown key 'nonsense'; available: "),
    ],
)
def test_a_key_that_is_none_is_not_said_to_work_in_another_search(document, key, meant):
    [fault] = faults_of(document, {key: 3})
    assert meant in fault
    assert "run --like" not in fault


def test_whom_to_notify_has_an_option_of_its_own(document):
    assert faults_of(document, {"notify": "http://x"}) == ["notify: is given anew by --notify"]


def test_another_strategy_or_scheduler_comes_without_the_settings_of_this_one(document):
    told = faults_of(document, {"search.strategy": "bohb", "scheduler.name": "none"})
    assert ["--like 'first one' --search bohb;" in told[0], "--scheduler none;" in told[1]] == [
        True,
        True,
    ]


def test_all_faults_are_told_at_once_and_a_name_is_that_of_the_folder(document):
    name, seed = faults_of(document, {"name": "other", "seed": 3})
    assert name == "name: is that of the folder: move it, or tuner rename 'first one' NEW"
    assert seed.startswith("seed: cannot change")


@pytest.mark.parametrize("value", [9, 20.5, "20", None, True])
def test_trials_only_become_longer(document, value):
    [fault] = faults_of(document, {"scheduler.max_t": value})
    assert fault.startswith("scheduler.max_t: can only grow on a resume, from 10")


def test_a_bound_that_was_not_there_cannot_come(document):
    told = "cannot be set on a resume: trials had no such bound"
    assert faults_of(document, {"training.epochs": 20}) == [f"training.epochs: {told}"]
    document["spec"]["scheduler"] = None
    assert faults_of(document, {"scheduler.max_t": 20}) == [f"scheduler.max_t: {told}"]


def test_of_two_bounds_both_have_to_grow(document):
    document["spec"]["training"]["epochs"] = 10
    [fault] = faults_of(document, {"scheduler.max_t": 20})
    assert "makes no trial longer, as training.epochs is 10: give training.epochs=20, too" in fault
    both = changed(document, {"scheduler.max_t": 20, "training.epochs": 20}, name="x")
    assert build_spec(both["spec"]).epochs == 20


def test_where_nothing_is_stopped_nothing_will_be(document):
    document["spec"]["scheduler"] = {"name": "none", "max_t": 10}
    scheduler = build_spec(made(document, scheduler__max_t=40)["spec"]).scheduler
    assert (scheduler.max_t, scheduler.rungs()) == (40, ())


def test_lengths_are_those_before_the_present_one(document):
    spec = build_spec(document["spec"])
    assert lengths_of(document, spec) == Lengths(10, frozenset())
    longer = made(made(made(document, scheduler__max_t=20), num_samples=8), scheduler__max_t=30)
    assert lengths_of(longer, build_spec(longer["spec"])) == Lengths(30, frozenset({10, 20}))
    for damaged in ([{}], [3], 3, [{"epochs": "10"}]):
        with pytest.raises(UsageError, match=r"experiment.json of digits is damaged: `changes`"):
            lengths_of({CHANGES: damaged}, spec)


def test_what_was_completed_at_an_earlier_length_is_opened_again(tmp_path):
    writer = Writer(make_folder(tmp_path / "digits"))
    ends = {0: "completed", 1: "stopped", 2: "completed", 3: "completed", 4: "completed"}
    for number, end in ends.items():
        trial_id = writer.trial(number, [0.1] * (3 if number == 3 else 2), end=None)
        if number != 4:
            writer.checkpoint(trial_id, 2)
        done = {"done": True} if number == 2 else {}
        writer.add("trial_ended", trial_id=trial_id, status=end, **done)
    writer.end()
    trials = fold(read(writer.folder), Objective(metric="val_accuracy", mode="max")).trials
    lengths = Lengths(4, frozenset({2}))
    # Not: one that was stopped, came to its own end, is of no such length, has no checkpoint
    assert [t.trial_id for t in trials.values() if lengths.reopens(t)] == ["00000"]
