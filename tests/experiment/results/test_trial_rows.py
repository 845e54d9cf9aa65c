import json

from tuner.experiment.results.trial_rows import build_trial_rows, describe_trial


def test_trial_rows_have_best_metrics_and_config(snapshot, writer):
    writer.trial(
        0, [0.5, 0.75, 0.6], config={"lr": 0.1, "status": "mine", "o": {"m": 1}}
    )
    writer.trial(1, error=("oom", "m"))
    writer.end()
    results = writer.results
    rows = build_trial_rows(results)
    snapshot(json.dumps(rows, indent=1))
    reports = describe_trial(results, results.trials["00000"])["reports"]
    assert reports[1] == {"epoch": 2, "val_accuracy": 0.75}
    assert describe_trial(results, results.trials["00001"]) == {
        **rows[1],
        "message": "m",
        "reports": [],
    }
