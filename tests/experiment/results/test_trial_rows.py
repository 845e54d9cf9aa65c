"""A trial as a row of plain values."""

import json

from synthetic import Writer, make_folder

from tuner.experiment.results.results import Results
from tuner.experiment.results.trial_rows import curve, trial_json, trial_rows


def test_a_row_has_the_metrics_of_the_best_epoch_and_the_config(tmp_path):
    writer = Writer(make_folder(tmp_path / "digits"))
    writer.trial(0, [0.5, 0.75, 0.6], config={"lr": 0.1, "status": "mine", "o": {"m": 1}})
    writer.trial(1, error=("oom", "m"))
    writer.end()
    results = Results(writer.folder)
    first, failed = json.loads(json.dumps(trial_rows(results)))
    assert first == {
        "lr": 0.1,
        "o": {"m": 1},
        "val_accuracy": 0.75,
        "trial_id": "00000",
        "status": "completed",
        "epochs": 3,
        "epoch": 2,
        "time": 4.0,
        "error": None,
        "config": {"lr": 0.1, "status": "mine", "o": {"m": 1}},
    }
    assert (failed["status"], failed["error"], failed["epoch"]) == ("failed", "oom", None)
    assert curve(results.trials["00000"])[1] == {"epoch": 2, "val_accuracy": 0.75}
    assert trial_json(results, results.trials["00001"]) == {**failed, "message": "m", "reports": []}
