"""The examples print what their docstrings record, and find good trials."""

import shutil

import pytest
from pages import EXAMPLES, ROOT, find_shape, run_in_shell

from tuner.experiment.results.results import Results

WORST = {  # value of the objective that an example must beat
    "hugging_face_lora": 0.5,
    "lightning_module": 0.85,
    "own_network": 0.93,
    "several_objectives": 0.2,
    "training_script": 0.85,
    "xgboost_trees": 0.6,
}


@pytest.mark.docs
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_example_prints_what_it_records(example, tmp_path):
    example.skip_without_packages()
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for command, output in example.sessions:
        assert find_shape(run_in_shell(command, tmp_path)) == find_shape(output)
    results = Results(tmp_path / "results" / example.name)
    best = results.describe_best()["metrics"][results.metric]
    assert results.objective.is_better(best, WORST[example.name])
    keeps_checkpoints = all(trial.checkpoints for trial in results.trials.values())
    assert keeps_checkpoints == (example.name != "training_script")
