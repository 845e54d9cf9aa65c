"""The searchers that learn in anyone's own `tune.run`: a function, Ray's ASHA, four at a time."""

from __future__ import annotations

import json
import math

import pytest
from ray import tune
from ray.tune.schedulers import ASHAScheduler

from tuner.search.searchers._bayesian_optimization import LibraryGP
from tuner.search.searchers._bayesopt import BayesOpt
from tuner.search.searchers._hyperopt_tpe import HyperOptTPE
from tuner.search.searchers._learning import LearningSearch
from tuner.search.searchers.bohb import BOHB
from tuner.search.searchers.hyperopt import TPE

pytestmark = pytest.mark.slow

TRIALS, EPOCHS = 24, 6
OPTIMIZERS = [
    {"name": "sgd", "momentum": tune.uniform(0.0, 0.99)},
    {"name": "adam"},
]
SPACE = {
    "lr": tune.loguniform(1e-4, 1.0),
    "batch_size": tune.choice([16, 32, 64]),
    "layers": tune.randint(1, 5),
    "optimizer": tune.choice(OPTIMIZERS),
    "fixed": 3,
}


def native_space():
    from hyperopt import hp

    sgd = {"name": "sgd", "momentum": hp.uniform("momentum", 0.0, 0.99)}
    return {
        "lr": hp.loguniform("lr", math.log(1e-4), 0.0),
        "batch_size": hp.choice("batch_size", [16, 32, 64]),
        "layers": hp.randint("layers", 1, 5),
        "optimizer": hp.choice("optimizer", [sgd, {"name": "adam"}]),
        "fixed": 3,
    }


def run(search, folder, **fields):
    """What `tune.run` makes of a user's own function, one in eight of whose trials fail."""

    def train(config):
        if config["lr"] > 0.3:
            raise ValueError("it diverged")
        for epoch in range(1, EPOCHS + 1):
            loss = (math.log10(config["lr"]) + 2) ** 2 + 1 / epoch
            tune.report({"accuracy": 1 / (1 + loss)})

    return tune.run(
        train,
        search_alg=search,
        scheduler=ASHAScheduler(max_t=EPOCHS, grace_period=1, reduction_factor=2),
        metric="accuracy",
        mode="max",
        num_samples=TRIALS,
        max_concurrent_trials=4,
        resources_per_trial={"cpu": 0.5},
        reuse_actors=True,
        raise_on_failed_trial=False,
        storage_path=str(folder),
        verbose=0,
        **fields,
    ).trials


def check(search, trials):
    configs = [trial.config for trial in trials]
    assert len(configs) == TRIALS
    assert len({json.dumps(config, sort_keys=True) for config in configs}) == TRIALS
    for config in configs:
        assert 1e-4 <= config["lr"] <= 1.0
        assert config["batch_size"] in (16, 32, 64)
        assert config["layers"] in range(1, 5)
        assert config["fixed"] == 3
        optimizer = config["optimizer"]
        assert optimizer["name"] in ("sgd", "adam")
        assert ("momentum" in optimizer) == (optimizer["name"] == "sgd")
        assert 0 <= optimizer.get("momentum", 0) <= 0.99
    for trial in trials:
        assert trial.status == ("ERROR" if trial.config["lr"] > 0.3 else "TERMINATED")
    lengths = {
        trial.last_result["training_iteration"] for trial in trials if trial.status != "ERROR"
    }
    assert EPOCHS in lengths
    assert len(lengths) > 1  # ASHA stopped some
    known = search.get_state()["trials"]
    statuses = {trial.trial_id: known[trial.trial_id]["status"] for trial in trials}
    assert statuses == {
        trial.trial_id: "failed" if trial.status == "ERROR" else "ended" for trial in trials
    }
    assert {"random", "model"} == {search.origin(trial.trial_id) for trial in trials}


MODELS = [
    *((TPE(0.1, 64), 10), (BayesOpt(), 8), (BOHB(0.05, 64), 10)),
    *((HyperOptTPE(), 10), (LibraryGP(), 16)),
]


@pytest.mark.parametrize(("model", "startup"), MODELS)
def test_a_searcher_takes_space_and_objective_from_tune_run(model, startup, ray_here, tmp_path):
    search = LearningSearch(model, seed=1, startup=startup)
    check(search, run(search, tmp_path, config=SPACE))


def test_a_space_of_hyperopts_own(ray_here, tmp_path):
    search = LearningSearch(TPE(0.1, 64), native_space(), "accuracy", "max", seed=1)
    check(search, run(search, tmp_path))
