import random
import warnings
from math import log10

import optuna
import pytest
from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
from optuna.trial import create_trial
from stories import search

from tuner.reporting.axes import Axis, build_axes
from tuner.reporting.figures.data import FigureData
from tuner.reporting.importance import estimate_importances
from tuner.reporting.optuna_study import build_distribution
from tuner.spec.space.parsing import parse_domain

DOMAINS = {
    name: parse_domain(text)
    for name, text in {
        "lr": "loguniform(1e-4, 1)",
        "momentum": "uniform(0, 1)",
        "width": "choice([16, 32, 64])",
        "layers": "randint(1, 9)",
        "batch_size": "lograndint(1, 1000)",
    }.items()
}


def draw_trials(count):
    """Configs, of which some lack momentum, and losses, for which lr counts most."""
    chance = random.Random(count)
    configs = []
    losses = []
    for _ in range(count):
        config = {
            name: domain.compute_value(chance.random())
            for name, domain in DOMAINS.items()
        }
        if chance.random() < 0.3:
            del config["momentum"]
        configs.append(config)
        losses.append(
            abs(log10(config["lr"]) + 2) + 0.1 * config["layers"] + chance.random() / 10
        )
    return configs, losses


@pytest.mark.parametrize("count", [10, 30, 300])
def test_importances_equal_those_of_optuna(count):
    configs, losses = draw_trials(count)
    axes = build_axes(DOMAINS, configs)
    distributions = {name: build_distribution(axis) for name, axis in axes.items()}
    study = optuna.create_study()
    for config, loss in zip(configs, losses, strict=True):
        present = {name: distributions[name] for name in config}
        study.add_trial(create_trial(params=config, distributions=present, value=loss))
    evaluator = PedAnovaImportanceEvaluator(target_quantile=max(0.1, 5 / count))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few trials
        expected = get_param_importances(study, evaluator=evaluator)
    ours = estimate_importances(build_axes(DOMAINS, configs), configs, losses)
    assert {item.name: item.share for item in ours} == pytest.approx(expected)


def test_importances_rank_decisive_hyperparameter_first(tmp_path):
    ranking = FigureData(search(tmp_path / "x", 60)).importances
    assert ranking[0].name == "lr"
    assert sum(importance.share for importance in ranking) == pytest.approx(1)
    assert ranking[0].low > max(importance.share for importance in ranking[1:])
    assert all(importance.told_apart for importance in ranking)
    for importance in ranking:
        assert 0 <= importance.low <= importance.high <= 1


@pytest.mark.parametrize("count", [10, 20, 50])
def test_importances_of_noise_are_not_significant(count):
    chance = random.Random(count)
    configs = [{name: chance.random() for name in "abcd"} for _ in range(count)]
    ranking = estimate_importances(
        {name: Axis(low=0, high=1) for name in "abcd"}, configs, range(count)
    )
    assert ranking[0].share > 0.35  # by chance alone: a quarter is its due
    assert not any(importance.told_apart for importance in ranking)


def test_importances_are_reproducible_and_need_ten_trials():
    configs, losses = draw_trials(20)
    axes = build_axes(DOMAINS, configs)
    assert estimate_importances(axes, configs, losses) == estimate_importances(
        axes, configs, losses
    )
    assert estimate_importances(axes, configs[:9], losses[:9]) == []


@pytest.mark.parametrize("holders", [[0], range(10, 20)])
def test_a_hyperparameter_of_one_trial_or_of_no_good_one_has_no_share(holders):
    chance = random.Random(0)
    configs = [{"lr": number / 20} for number in range(20)]
    for number in holders:
        configs[number]["rare"] = chance.random()
    axes = {name: Axis(low=0, high=1) for name in ("lr", "rare")}
    shares = {
        item.name: item.share for item in estimate_importances(axes, configs, range(20))
    }
    assert shares == {"lr": 1, "rare": 0}
