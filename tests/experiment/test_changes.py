"""What resumes have changed, as experiment.json keeps it."""

import pytest

from tuner.errors import UsageError
from tuner.experiment.changes import CHANGES, Change, changes_of

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
        3,
        {},
        [3],
        [{}],
        [{**EARLIER, "epochs": "10"}],
        [{"was": {}, "is": {}}],
        [{**EARLIER, "was": {}}],
        [{**EARLIER, "is": []}],
        [{**EARLIER, "time": "now"}],
        [{**EARLIER, "time": 1e300}],
    ],
)
def test_damaged_ones_are_refused(damaged):
    with pytest.raises(UsageError, match=r"experiment.json of digits is damaged: `changes`"):
        changes_of({CHANGES: damaged}, "digits")
