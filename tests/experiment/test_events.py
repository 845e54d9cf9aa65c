import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import OWNER

from tuner.experiment.events import find_fault

WHEN = {"time": 1.0}
OF_TRIAL = WHEN | {"trial_id": "00001"}
GOOD = [
    WHEN | {"event": "experiment_started", "resumed": False, "owner": OWNER},
    OF_TRIAL
    | {"event": "trial_started", "config": {"lr": 0.1, "sizes": [1, 2], "norm": None}},
    OF_TRIAL | {"event": "result", "epoch": 1, "metrics": {"loss": 0.5, "images": 100}},
    OF_TRIAL
    | {"event": "checkpoint", "epoch": 1, "path": "trials/x", "sha256": "a" * 64},
    OF_TRIAL | {"event": "trial_ended", "status": "completed"},
    OF_TRIAL
    | {
        "event": "trial_ended",
        "status": "failed",
        "error": {"kind": "oom", "message": "m"},
    },
    WHEN | {"event": "experiment_ended", "status": "interrupted"},
    WHEN | {"event": "control", "id": "1", "control": {"verb": "pause"}},
    WHEN | {"event": "of a later version", "anything": [1]},
]
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-1, 10**16),
    st.floats(),
    st.sampled_from(
        ["", "00001", "x", "stopped", "failed", "a" * 64, "A" * 64, 10**400]
    ),
    st.dictionaries(
        st.sampled_from(["loss", "lr", 3]), st.floats() | st.integers() | st.text()
    ),
)
FIELDS = {field for event in GOOD for field in event} | {"seed"}


@pytest.mark.parametrize("event", GOOD, ids=lambda event: event["event"])
def test_fault_of_a_valid_event_is_none(event):
    assert find_fault(event) is None


@pytest.mark.parametrize("event", GOOD[:-1], ids=lambda event: event["event"])
def test_fault_of_a_missing_field_names_it(event):
    for field in event:
        fault = find_fault({key: value for key, value in event.items() if key != field})
        assert field in fault


@pytest.mark.parametrize(
    ("number", "field", "value"),
    [
        (0, "owner", OWNER | {"pid": "1"}),
        (1, "config", {"lr": math.nan}),
        (1, "config", {1: 2}),
        (1, "seed", -1),
        (1, "trial_id", "../00001"),
        (1, "trial_id", "1" * 101),
        (1, "trial_id", "٣"),
        (1, "time", math.inf),
        (6, "counts", {"completed": -1}),
        (6, "best", {"trial_id": "00001"}),
        (6, "idle_s", -1),
        (2, "epoch", True),
        (2, "epoch", -1),
        (2, "metrics", {"loss": math.inf}),
        (2, "metrics", {"loss": True}),
        (2, "metrics", {"loss": 10**400}),
        (3, "sha256", "A" * 64),
        (4, "status", "running"),
        (4, "forecasts", {"one": {"end": 0.5}}),
        (4, "forecasts", {"1": {"end": math.nan}}),
        (5, "error", {"kind": "oom"}),
        (6, "status", "stopped"),
        (2, "done", False),
        (4, "done", "yes"),
        (7, "id", 1),
        (7, "control", "pause"),
        (7, "control", {"no": "verb"}),
        (7, "control", {"verb": "x", "y": math.nan}),
        (7, "by", 1),
        (7, "refused", 1),
    ],
)
def test_fault_of_a_wrong_value_names_the_field(number, field, value):
    fault = find_fault(GOOD[number] | {field: value})
    assert f"`{field}`" in fault


def test_fault_of_endlessly_nested_values():
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    assert find_fault(GOOD[1] | {"config": {"x": deep}}) is not None
    assert find_fault(GOOD[2] | {"epoch": deep}) is not None
    assert find_fault(deep) is not None


@given(st.sampled_from(GOOD), st.dictionaries(st.sampled_from(sorted(FIELDS)), VALUES))
def test_fault_of_never_raises(good, changes):
    fault = find_fault(good | changes)
    needed = ["error"] if changes.get("status") == "failed" else []
    assert fault is None or any(f"`{field}`" in fault for field in [*changes, *needed])
