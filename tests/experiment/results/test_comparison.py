import json

import pytest
from stories import SPACE, odd, search
from synthetic import ended

from tuner.errors import NoUsableTrialError, UsageError
from tuner.experiment.results.comparison import Comparison
from tuner.experiment.results.results import Results


def experiment(folder, values, *, strategy="random", seed=0, **spec):
    """A search whose trials of one epoch had these values."""
    settings = {"strategy": strategy, "space": SPACE, **spec.pop("settings", {})}
    trials = ([value] for value in values)
    return Results(ended(folder, *trials, search=settings, seed=seed, **spec))


@pytest.fixture
def six(tmp_path):
    """Three seeds of two strategies, hyperopt the better one; one random search went on longer."""
    return [
        experiment(tmp_path / f"{name}{seed}", values, strategy=name, seed=seed)
        for seed in range(3)
        for name, values in {
            "random": [0.5, 0.6 + 0.01 * seed, *([0.9] if seed == 0 else [])],
            "hyperopt": [0.4, 0.7 + 0.011 * seed],
        }.items()
    ]


def test_comparison_ranks_strategies_at_equal_epochs_and_seeds(six):
    comparison = Comparison(six)
    sides = [(side.strategy, len(side.entrants)) for side in comparison.sides]
    assert sides == [("hyperopt", 3), ("random", 3)]
    assert comparison.notes == ()
    random = comparison.sides[1]
    less = comparison.compute_difference(random)
    assert (less.n, less.mean, less.is_settled) == (3, pytest.approx(-0.101), True)
    shown = json.loads(json.dumps(comparison.as_dict(), allow_nan=False))["strategies"][
        1
    ]
    assert shown["difference"]["told_apart"] is True
    assert shown["experiments"][0]["steps"] == {
        "epochs": [[1, 0.5], [2, 0.6], [3, 0.9]]
    }
    unpaired = Comparison([six[0], six[3]])  # random of seed 0, hyperopt of seed 1
    assert unpaired.compute_difference(unpaired.sides[1]) is None


def test_notes_name_differing_settings(snapshot, tmp_path):
    first = experiment(tmp_path / "a", [0.5], training={"depth": 8})
    other = experiment(
        tmp_path / "b",
        [0.6],
        settings={"space": {**SPACE, "lr": "uniform(0, 1)"}},
        scheduler=False,
        resources={"cpus": 2},
    )
    same = experiment(tmp_path / "c", [0.6], training={"depth": 8}, seed=1)
    snapshot("\n".join(Comparison([first, other, same]).notes))


def test_notes_name_running_and_failed_experiments(snapshot, tmp_path):
    failed = odd(tmp_path / "failed", "all_failed")
    running = odd(tmp_path / "running", "running")
    comparison = Comparison([failed, running])
    snapshot("\n".join(comparison.notes))
    assert comparison.sides[0].best.n == 1
    assert comparison.budget == running.trials["00001"].last_epoch + 2
    with snapshot.raises(NoUsableTrialError):
        Comparison([failed, odd(tmp_path / "none", "no_trial")])


def test_comparison_refuses_differing_objectives(snapshot, tmp_path):
    results = [search(tmp_path / "a", 3), odd(tmp_path / "b", "diverged")]
    with snapshot.raises(UsageError):
        Comparison(results)


def test_sides_average_specs_equal_but_for_the_seed(tmp_path):
    cnn, mlp = ({"model": model, "dataset": "digits"} for model in ("cnn", "mlp"))
    first = experiment(tmp_path / "a", [0.9], training=cnn)
    other = experiment(tmp_path / "b", [0.5], training=mlp)
    again = experiment(tmp_path / "c", [0.8], training=cnn, seed=1)
    comparison = Comparison([first, other, again])
    sides = [(side.label, side.best.n, side.best.mean) for side in comparison.sides]
    both = ("random (a and 1 more)", 2, pytest.approx(0.85))
    assert sides == [both, ("random (b)", 1, 0.5)]
    assert [s["label"] for s in comparison.as_dict()["strategies"]] == [
        label for label, *_ in sides
    ]
