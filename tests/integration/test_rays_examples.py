"""The examples that Ray ships train as they are: only the search around them is ours."""

import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

STAND_INS = Path(__file__).parent / "stand_ins"
SCORE = {"width": "uniform(1, 20)", "height": "uniform(-100, 100)", "steps": 2}
WAVE = {"width": "uniform(1, 20)", "height": "uniform(1, 100)"}
IMAGES = {"lr": "loguniform(1e-3, 1e-1)", "momentum": "uniform(0.1, 0.9)"}
BREAST_CANCER = {"eta": "loguniform(1e-3, 1e-1)", "max_depth": "randint(1, 4)"}
LIGHT = {
    "objective": "binary",
    "metric": "constant(['binary_error', 'binary_logloss'])",
    "learning_rate": "loguniform(1e-3, 1e-1)",
    "verbose": -1,
}
SCHEDULE = {"lr": "loguniform(1e-3, 1e-2)"}

# module:name -> (metric, space, whether its checkpoints are kept, what it needs)
EXAMPLES = {
    "async_hyperband_example:easy_objective": ("mean_loss", SCORE, False),
    "ax_example:easy_objective": (
        "hartmann6",
        {**{f"x{n}": "uniform(0, 1)" for n in range(1, 7)}, "iterations": 2, "timesteps_total": 2},
        False,
    ),
    "bayesopt_example:easy_objective": ("mean_loss", SCORE, False),
    "bohb_example:MyTrainableClass": ("episode_reward_mean", WAVE, True),
    "cifar10_pytorch:train_cifar": (
        "loss",
        {"lr": "loguniform(1e-3, 1e-1)", "l1": 8, "l2": 8, "batch_size": 16, "smoke_test": True},
        True,
    ),
    "custom_checkpointing_with_callback:OptimizationTrainable": ("mean_loss", SCORE, True),
    "custom_func_checkpointing:train_func": ("mean_loss", SCORE, True),
    "hyperband_function_example:train_func": ("episode_reward_mean", WAVE, True),
    "hyperopt_conditional_search_space_example:easy_objective": ("mean_loss", SCORE, False),
    "lightgbm_example:train_breast_cancer": ("binary_error", LIGHT, False),
    "logging_example:easy_objective": ("mean_loss", SCORE, False),
    "mlflow_example:train_function": ("mean_loss", SCORE, False),
    "mnist_pytorch:train_mnist": ("mean_accuracy", {**IMAGES, "should_checkpoint": True}, True),
    "mnist_pytorch_trainable:TrainMNIST": ("mean_accuracy", IMAGES, True),
    "nevergrad_example:easy_objective": ("mean_loss", SCORE, False),
    "optuna_define_by_run_example:easy_objective": ("mean_loss", SCORE, False),
    "optuna_example:easy_objective": ("mean_loss", SCORE, False),
    "optuna_multiobjective_example:easy_objective": ("loss", SCORE, False),
    "pbt_convnet_example:PytorchTrainable": ("mean_accuracy", IMAGES, True),
    "pbt_convnet_function_example:train_convnet": ("mean_accuracy", IMAGES, True),
    "pbt_example:PBTBenchmarkExample": ("mean_accuracy", SCHEDULE, True),
    "pbt_function:pbt_function": ("mean_accuracy", {**SCHEDULE, "checkpoint_interval": 2}, True),
    "tune_basic_example:easy_objective": ("mean_loss", SCORE, False),
    "xgboost_example:train_breast_cancer": (
        "test-logloss",
        {**BREAST_CANCER, "objective": "binary:logistic", "eval_metric": ["logloss", "error"]},
        True,
    ),
}
NEEDS = {"lightgbm_example": "lightgbm", "mlflow_example": "mlflow", "xgboost_example": "xgboost"}


@pytest.fixture
def stand_ins(monkeypatch):
    """What the examples download is made up, here and in the workers."""
    monkeypatch.syspath_prepend(STAND_INS)
    names = ("torchvision", "torchvision.datasets", "torchvision.transforms")
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield
    for name in names:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("path", EXAMPLES)
def test_an_example(path, searched, stand_ins):
    metric, space, keeps = EXAMPLES[path]
    if package := NEEDS.get(path.partition(":")[0]):
        pytest.importorskip(package, reason=f"this example needs {package}")
    results = searched(
        trainable=f"ray.tune.examples.{path}",
        search={"space": space},
        objective={"metric": metric, "mode": "max" if "acc" in metric else "min"},
        scheduler={"max_t": 2, "grace_period": 2},
        num_samples=1,
    )
    (trial,) = results.trials.values()
    log = results.log_path(trial).read_text()
    assert (trial.status, trial.error) == ("completed", None), log
    assert trial.last_epoch == 2
    assert bool(trial.checkpoints) == keeps
    assert "Traceback" not in log
