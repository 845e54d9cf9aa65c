"""What resumes change of a spec: what is accepted, how it is kept, which trials become longer."""

import time

import pytest
from synthetic import change_document, make_folder, read_document

from tuner.errors import SpecError, UsageError
from tuner.experiment.changes import (
    CHANGES,
    Lengths,
    apply_changes,
    describe_changes,
    find_lengths,
    has_grown,
    read_changes,
)
from tuner.experiment.results.results import Results
from tuner.spec.experiment import build_spec

EARLIER = {
    "was": {"num_samples": 4},
    "is": {"num_samples": 8},
    "epochs": None,
    "time": 0.0,
}


@pytest.mark.parametrize(
    "damaged",
    [
        *({}, 3, [3], [{}], [{"epochs": "10"}]),
        *(
            [EARLIER | change]
            for change in ({"epochs": "10"}, {"was": {}}, {"time": 1e300})
        ),
    ],
)
def test_changes_of_damaged_changes_are_refused(snapshot, damaged):
    assert read_changes({}, "digits") == []
    assert read_changes({CHANGES: [EARLIER]}, "digits") == [EARLIER]
    with snapshot.raises(UsageError):
        read_changes({CHANGES: damaged}, "digits")


def test_changes_json_counts_epochs_reported_before_the_change(tmp_path, writer):
    writer.trial(0, [0.1, 0.2])
    writer.trial(1, [0.3])
    between = writer.journal.clock()
    writer.trial(1, [0.4], first=2)
    writer.end()
    change = {"was": {"scheduler.max_t": 1}, "is": {"scheduler.max_t": 2}}
    changes = [EARLIER, {"time": between, **change, "epochs": 1}]
    path = tmp_path / "digits/experiment.json"
    change_document(path, **{CHANGES: changes})
    results = Results(tmp_path / "digits")
    assert results.changes == [
        {"time": 0.0, "after_epochs": 0, "was": EARLIER["was"], "is": EARLIER["is"]},
        {"time": between, "after_epochs": 3, **change},
    ]
    assert results.show()["changes"] == results.changes
    assert describe_changes({}, results.trials.values(), "digits") == []


@pytest.fixture
def document(tmp_path):
    folder = make_folder(
        tmp_path / "digits", resources={"cpus": 1}, storage=str(tmp_path)
    )
    return read_document(folder / "experiment.json")


def made(document, **changes):
    return apply_changes(
        document, {key.replace("__", "."): v for key, v in changes.items()}, name="x"
    )


def faults_of(document, changes):
    with pytest.raises(SpecError) as refused:
        apply_changes(document, changes, name="first one")
    return list(map(str, refused.value.faults))


def test_changed_makes_a_change_and_records_the_earlier_value(document):
    longer = made(document, scheduler__max_t=20)
    assert longer["spec"]["scheduler"]["max_t"] == 20
    [change] = read_changes(longer, "x")
    made_at = change["time"]
    assert 0 < made_at <= time.time()
    was, now = {"scheduler.max_t": 10}, {"scheduler.max_t": 20}
    assert change == {"time": made_at, "was": was, "is": now, "epochs": 10}
    assert document["spec"]["scheduler"]["max_t"] == 10
    more = made(longer, num_samples=9, stop__target=0.1)
    assert (more["spec"]["num_samples"], more["spec"]["stop"]) == (9, {"target": 0.1})
    assert [change["epochs"] for change in more[CHANGES]] == [10, 20]
    assert made(longer, scheduler__max_t=20) == longer


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num_samples", 2),
        ("max_concurrent", None),
        ("time_budget_s", 60),
        ("stop.patience_epochs", 3),
        ("stop", {"target": 0.1}),
        ("timeouts.report_s", 10),
        ("resources.gpus", 0.5),
        ("training.data_dir", "elsewhere"),
    ],
)
def test_changed_accepts_keys_that_keep_the_meaning_of_reports(document, key, value):
    spec = build_spec(apply_changes(document, {key: value}, name="x")["spec"])
    assert isinstance(spec.epochs, int)


@pytest.mark.parametrize(
    "key",
    [
        *(
            "search.strategy",
            "objective.metric",
            "scheduler.grace_period",
            "training.width",
        ),
        *("resources.workers", "seed", "notify", "name", "scheduler.maxt", "nonsense"),
    ],
)
def test_changed_refuses_other_keys_with_the_command_of_a_new_search(document, key):
    faults = faults_of(document, {key: "choice([1, 2])", "trainable": "a:b"})
    assert [fault.split(":")[0] for fault in faults] == [key, "trainable"]
    assert f"tuner run --like 'first one' '{key}=choice([1, 2])'" in faults[0]
    assert "; available: scheduler.max_t, training.epochs, num_samples" in faults[0]


def test_changed_lets_the_space_grow_unless_a_grid_has_seeds(snapshot, document):
    wider = made(document, search__space__lr="tune.loguniform(1e-5, 1)")
    assert wider["spec"]["search"]["space"] == {"lr": "loguniform(1e-05, 1)"}
    assert (has_grown(document, "x"), has_grown(wider, "x")) == (False, True)
    assert made(wider, search__space__lr="loguniform(0.00001, 1)") == wider
    snapshot("\n".join(faults_of(wider, {"search.space.lr": "loguniform(1e-4, 1)"})))
    snapshot("\n".join(faults_of(document, {"search.space.lr": "loguniform(-1, 1)"})))
    document["spec"]["search"] |= {"strategy": "grid", "seeds": [1, 2]}
    snapshot("\n".join(faults_of(document, {"search.space.lr": "loguniform(1e-5, 1)"})))


@pytest.mark.parametrize("value", [9, 20.5, "20", None, True])
def test_changed_makes_trials_only_longer(document, value):
    [fault] = faults_of(document, {"scheduler.max_t": value})
    assert fault.startswith("scheduler.max_t: can only grow on a resume, from 10")


def test_changed_adds_no_bound(document):
    document["spec"]["scheduler"] = None
    for path in ("training.epochs", "scheduler.max_t"):
        [fault] = faults_of(document, {path: 20})
        assert fault.startswith(f"{path}: cannot be set on a resume")


def test_changed_with_two_bounds_needs_both_to_grow(document):
    document["spec"]["training"]["epochs"] = 10
    [fault] = faults_of(document, {"scheduler.max_t": 20})
    assert "makes no trial longer" in fault
    both = apply_changes(
        document, {"scheduler.max_t": 20, "training.epochs": 20}, name="x"
    )
    assert build_spec(both["spec"]).epochs == 20


def test_changed_without_stopping_stops_nothing(document):
    document["spec"]["scheduler"] = {"name": "none", "max_t": 10}
    scheduler = build_spec(made(document, scheduler__max_t=40)["spec"]).scheduler
    assert (scheduler.max_t, scheduler.rungs()) == (40, ())


def test_lengths_of_has_every_earlier_length(document):
    spec = build_spec(document["spec"])
    assert find_lengths(document, spec) == Lengths(10, frozenset())
    more = made(document, num_samples=8)
    assert find_lengths(more, build_spec(more["spec"])) == Lengths(10, frozenset())
    longer = made(
        made(made(document, scheduler__max_t=20), num_samples=8), scheduler__max_t=30
    )
    assert find_lengths(longer, build_spec(longer["spec"])) == Lengths(
        30, frozenset({10, 20})
    )


@pytest.mark.parametrize(
    ("end", "epochs", "saved", "done", "is_reopened"),
    [
        ("completed", 2, True, {}, True),
        ("stopped", 2, True, {}, False),
        ("completed", 2, True, {"done": True}, False),
        ("completed", 3, True, {}, False),
        ("completed", 2, False, {}, False),
    ],
)
def test_lengths_reopen_trials_completed_at_an_earlier_length(
    writer, end, epochs, saved, done, is_reopened
):
    trial_id = writer.trial(0, [0.1] * epochs, end=None)
    if saved:
        writer.checkpoint(trial_id, 2)
    writer.add("trial_ended", trial_id=trial_id, status=end, **done)
    writer.end()
    trial = writer.results.trials[trial_id]
    assert Lengths(4, frozenset({2})).should_reopen(trial) == is_reopened
