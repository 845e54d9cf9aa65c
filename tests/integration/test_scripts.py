"""A user's code runs to its own end: a function to its return, and a script to its exit."""

import sys
from pathlib import Path

import driven
import psutil
import pytest
from gated import open_gate, wait_for
from ray import tune

from tuner.search.retraining import confirm
from tuner.search.run import resume_experiment

HERE = Path(__file__).parent


def saves_at_its_end(config):
    for epoch in range(config["epochs"]):
        tune.report({"loss": config["lr"] / (epoch + 1)})
    Path("model.txt").write_text("weights")


def log_of(results, trial_id):
    return results.log_path(results.trial(trial_id)).read_text()


def model_of(results, trial_id):
    return results.folder / "trials" / trial_id / "files/model.txt"


def search_of_functions(searched, epochs, **fields):
    lrs = [1.0, 2.0]
    space = {"lr": f"grid_search({lrs})", "epochs": epochs}
    return searched(
        trainable=saves_at_its_end,
        search={"strategy": "grid", "space": space},
        objective={"metric": "loss"},
        **fields,
    )


def test_function_after_max_t_reports_runs_to_return(searched):
    results = search_of_functions(
        searched, 3, scheduler={"max_t": 3, "grace_period": 3}
    )
    assert results.counts["completed"] == 2
    assert [len(trial.results) for trial in results.trials.values()] == [3, 3]
    for trial_id in results.trials:
        assert model_of(results, trial_id).read_text() == "weights"
        assert log_of(results, trial_id) == ""


@pytest.mark.slow
def test_stopped_function_is_cut_and_noted_in_log(searched):
    scheduler = {"max_t": 3, "grace_period": 1, "reduction_factor": 2}
    results = search_of_functions(searched, 9, scheduler=scheduler)
    assert [trial.status for trial in results.trials.values()] == [
        "completed",
        "stopped",
    ]
    for trial_id, epochs in (("00000", 3), ("00001", 1)):
        assert results.trial(trial_id).last_epoch == epochs
        assert not model_of(results, trial_id).exists()
        note = f"ended after epoch {epochs}: what follows its last report does not run"
        assert note in log_of(results, trial_id)


@pytest.mark.slow
@pytest.mark.parametrize(("gated", "began_at"), [(3, [0, 0, 2, 2]), (5, [0, 0, 0, 0])])
def test_script_resumes_after_kill(tmp_path, ray_here, gated, began_at):
    command = f"{sys.executable} {HERE}/counting_script.py {tmp_path} {gated} {{lr}}"
    process = driven.start(
        *(
            "run",
            "--command",
            command,
            "search.space.lr=uniform(1, 2)",
            "objective.metric=loss",
        ),
        *(
            "scheduler.max_t=4",
            "--num-samples",
            1,
            "--name",
            "x",
            "--storage",
            tmp_path,
        ),
        cwd=tmp_path,
    )
    reports = f'"epoch":{min(gated, 5) - 1},'
    journal = tmp_path / "x/journal.jsonl"
    wait_for(
        lambda: (tmp_path / "waits").exists() and reports in journal.read_text(),
        process,
    )
    process.kill()
    process.wait()
    pids = [int(path.name.partition("-")[2]) for path in tmp_path.glob("pid-*")]
    wait_for(lambda: not any(map(psutil.pid_exists, pids)))
    open_gate(tmp_path)

    results = resume_experiment(tmp_path / "x")
    [trial] = results.trials.values()
    assert trial.status == "completed"
    assert [report.metrics["began_at"] for report in trial.results] == began_at
    assert (tmp_path / "x/trials/00000/files/end.txt").read_text() == "0"
    exported = results.export(tmp_path / "out") / "checkpoint/epoch"
    assert exported.read_text() == "4"

    confirmed = confirm(results, top=1, seeds=1).results
    assert (confirmed.folder / "trials/00000/files/end.txt").read_text() == "1"
