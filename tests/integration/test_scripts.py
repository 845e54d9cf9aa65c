"""A user's code runs to its own end: a function to its return, and a script to its exit."""

from pathlib import Path

from ray import tune

from tuner.results.results import Results


def saves_at_its_end(config):
    for epoch in range(config["epochs"]):
        tune.report({"loss": config["lr"] / (epoch + 1)})
    Path("model.txt").write_text("weights")


def log_of(results: Results, trial_id: str) -> str:
    return results.log_path(results.trial(trial_id)).read_text()


def model_of(results: Results, trial_id: str) -> Path:
    return results.folder / "trials" / trial_id / "files" / "model.txt"


def search_of_functions(searched, epochs, **fields):
    lrs = [1.0, 2.0]
    space = {"lr": f"grid_search({lrs})", "epochs": epochs}
    return searched(
        trainable=saves_at_its_end,
        search={"strategy": "grid", "space": space},
        objective={"metric": "loss"},
        max_concurrent=1,
        **fields,
    )


def test_a_function_that_has_reported_max_t_times_runs_to_its_return(searched):
    results = search_of_functions(searched, 3, scheduler={"max_t": 3, "grace_period": 3})
    assert results.counts["completed"] == 2
    assert [len(trial.results) for trial in results.trials.values()] == [3, 3]
    for trial_id in results.trials:
        assert model_of(results, trial_id).read_text() == "weights"
        assert log_of(results, trial_id) == ""


def test_a_function_that_reports_more_than_max_t_times_is_cut_and_its_log_says_so(searched):
    results = search_of_functions(searched, 9, scheduler={"max_t": 2, "grace_period": 2})
    assert results.counts["completed"] == 2
    assert [len(trial.results) for trial in results.trials.values()] == [2, 2]
    for trial_id in results.trials:
        assert not model_of(results, trial_id).exists()
        said = "ended after epoch 2: what follows its last report does not run"
        assert said in log_of(results, trial_id)


def test_a_function_that_is_stopped_early_is_cut_and_its_log_says_so(searched):
    scheduler = {"max_t": 3, "grace_period": 1, "reduction_factor": 2}
    results = search_of_functions(searched, 3, scheduler=scheduler)
    assert [trial.status for trial in results.trials.values()] == ["completed", "stopped"]
    assert model_of(results, "00000").exists()
    assert not model_of(results, "00001").exists()
    assert "ended after epoch 1: what follows" in log_of(results, "00001")
