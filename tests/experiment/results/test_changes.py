"""What resumes have changed of an experiment, and when."""

import json

from synthetic import Writer, make_folder

from tuner.experiment.changes import CHANGES, Change
from tuner.experiment.results.changes import changes_json
from tuner.experiment.results.results import Results


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
