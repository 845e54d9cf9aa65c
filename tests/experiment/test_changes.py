"""What resumes have changed, as experiment.json keeps it."""

import json

import pytest
from synthetic import Writer, make_folder

from tuner.errors import UsageError
from tuner.experiment.changes import CHANGES, Change, changes_json, changes_of
from tuner.experiment.results.results import Results

LONGER = Change({"scheduler.max_t": 10}, {"scheduler.max_t": 20}, 10, 5.0)
EARLIER = {"was": {"num_samples": 4}, "is": {"num_samples": 8}, "epochs": None}  # without a time


def test_changes_are_read_as_they_were_written():
    assert changes_of({}, "digits") == []
    kept = {CHANGES: [EARLIER, LONGER.as_dict()]}
    first, second = changes_of(kept, "digits")
    assert (first.time, second) == (None, LONGER)
    assert [first.as_dict(), second.as_dict()] == kept[CHANGES]


@pytest.mark.parametrize(
    "damaged",
    [
        {},
        [{}],
        [{**EARLIER, "epochs": "10"}],
        [{**EARLIER, "was": {}}],
        [{**EARLIER, "time": 1e300}],
    ],
)
def test_damaged_ones_are_refused(damaged):
    with pytest.raises(UsageError, match=r"experiment.json of digits is damaged: `changes`"):
        changes_of({CHANGES: damaged}, "digits")


def test_epochs_are_those_of_all_trials_that_were_reported_by_then(tmp_path):
    writer = Writer(make_folder(tmp_path / "digits"))
    writer.trial(0, [0.1, 0.2])
    writer.trial(1, [0.3])
    between = writer.journal.clock()
    writer.trial(1, [0.4], first=2)
    writer.trial(2, [0.5])
    writer.end()
    was, now = {"scheduler.max_t": 1}, {"scheduler.max_t": 2}
    changes = [Change(was, now, 1), Change(now, {"scheduler.max_t": 3}, 2, between)]
    path = tmp_path / "digits" / "experiment.json"
    document = json.loads(path.read_text()) | {CHANGES: [one.as_dict() for one in changes]}
    path.write_text(json.dumps(document))
    results = Results(tmp_path / "digits")
    assert results.changes == [
        {"time": None, "after_epochs": None, "was": was, "is": now},
        {"time": between, "after_epochs": 3, "was": now, "is": {"scheduler.max_t": 3}},
    ]
    assert results.show()["changes"] == results.changes
    assert changes_json({}, results.trials.values(), "digits") == []
