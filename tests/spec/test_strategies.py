"""Settings of the search strategies, as a spec checks them."""

import pytest
from test_experiment import faults

from tuner.spec.experiment import ExperimentSpec, build_spec
from tuner.spec.text import apply_assignments
from tuner.spec.validation import validate


def test_grid_has_points_or_configs_times_seeds(snapshot):
    search = {
        "strategy": "grid",
        "space": {"a": "uniform(0, 1)", "b": "choice([1, 2])"},
    }
    given = {"configs": [{"a": 0.5, "b": 1}, {"a": 0.25, "b": 2}], "seeds": [3, 4, 5]}
    for changes, trials in (
        ({}, 6),
        ({"points": {"a": 5}}, 10),
        ({"seeds": [3, 4]}, 12),
        (given, 6),
        ({**given, "forbid": ["a < 0.3"]}, 3),
    ):
        assert build_spec({"search": search | changes}).trials == trials
    assert build_spec({"search": search, "num_samples": 4}).trials == 4
    for wrong in (
        {"points": {"c": 5}},
        {"points": 0},
        {"configs": [{"b": 1, "c": 2}], "seeds": [1, 1]},
        {"space": {"seed": "choice([1, 2])"}, "seeds": [3]},
    ):
        snapshot("\n".join(faults({"search": search | wrong})))


@pytest.mark.parametrize(
    ("point", "can"),
    [((0.5, 1), True), ((0.3, 1), False), ((0.5, 2), False), ((0.3, 2), False)],
)
@pytest.mark.parametrize("listed", [False, True])
def test_a_grid_can_suggest_its_cells_that_are_not_forbidden(point, can, listed):
    cells = [{"a": a, "b": b} for a in (0.0, 0.5, 1.0) for b in (1, 2)]
    search = {
        "strategy": "grid",
        "space": {"a": "uniform(0, 1)", "b": "choice([1, 2])"},
        "forbid": ["b == 2"],
        **({"configs": cells} if listed else {"points": {"a": 3}}),
    }
    config = dict(zip("ab", point, strict=True))
    assert build_spec({"search": search}).search.can_suggest(config) is can


def test_points_to_evaluate_outside_of_the_space_are_refused_before_a_search(snapshot):
    points = [{"lr": 0.5}, {"lr": 7}, {"rate": 0.1}]
    search = {
        "strategy": "bohb",
        "space": {"lr": "uniform(0, 1)"},
        "points_to_evaluate": points,
    }
    snapshot("\n".join(faults({"search": search, "num_samples": 3})))


LINE = {"space": {"lr": "loguniform(1e-3, 1)"}}
ONE = "objectives=[{metric: val_accuracy}]"
TWO = "objectives=[{metric: val_accuracy}, {metric: latency_ms}]"
OTHERS = "objective={metric: val_accuracy, others: [{metric: latency_ms}]}"


@pytest.mark.parametrize(
    ("strategy", "assignments"),
    [
        ("random", ["num_samples=11"]),
        ("random", ["num_samples=11", "time_budget_s=60"]),
        ("mixed", ["num_samples=12"]),
        ("mixed", ["num_samples='12'"]),
        ("mixed", ["time_budget_s=60"]),
        ("mixed", ["num_samples=12", "warm_start=earlier"]),
        ("mixed", ["num_samples=12", TWO]),
        ("mixed", ["num_samples=12", "warm_start=earlier", ONE]),
        ("random", ["num_samples=12", "warm_start=earlier", TWO]),
        ("random", ["num_samples=12", "warm_start=earlier", OTHERS]),
    ],
)
def test_spec_without_strategy_gets_one_that_works(strategy, assignments):
    spec = build_spec(apply_assignments({"search": LINE}, assignments))
    assert spec.search.strategy == strategy
    assert build_spec(spec.dump_values()) == spec
    named = {"search": {"strategy": "random", **LINE}}
    spec = build_spec(apply_assignments(named, assignments))
    assert spec.search.strategy == "random"


def test_spec_without_strategy_or_number_of_trials_is_refused():
    (fault,) = faults({"search": LINE})
    assert fault.startswith("num_samples: is required")
    (fault,) = faults({"search": LINE, "num_samples": [12]})
    assert fault.startswith("num_samples: must be a whole number")


def test_strategy_that_no_spec_names_follows_the_command_line():
    written = ExperimentSpec(search=LINE, num_samples=24)
    raw = written.dump_values(exclude_unset=True)
    for assignment, strategy in (
        ("num_samples=4", "random"),
        ("num_samples=40", "mixed"),
        ("search.strategy=bohb", "bohb"),
    ):
        spec = validate(apply_assignments(raw, [assignment]))
        assert spec.search.strategy == strategy
    resolved = validate(written.dump_values())
    assert resolved.replace(num_samples=4).search.strategy == "mixed"
