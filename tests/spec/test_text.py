"""A spec's plain values: as people write them, overridden, and with another strategy."""

from typing import Any

import pytest

from tuner.errors import SpecError
from tuner.spec.text import (
    LONGEST_NUMBER,
    apply_assignments,
    read_mapping,
    read_value,
    replace_strategy,
)

MINIMAL: dict[str, Any] = {
    "search": {"space": {"lr": "uniform(0, 1)"}},
    "num_samples": 3,
}


@pytest.mark.parametrize("wrong", ["seed", "=3", ".=3", "num_samples.x=3", "seed=[1"])
def test_override_invalid_assignment_is_refused(snapshot, wrong):
    with snapshot.raises(SpecError):
        apply_assignments(MINIMAL, [wrong])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("3", 3),
        ("true", True),
        ("null", None),
        ("[1, 1e-2]", [1, 0.01]),
        ("sgd", "sgd"),
        ("choice([16, 32])", "choice([16, 32])"),
        ("[1e-3, +.5E2, -3., 7.]", [0.001, 50.0, -3.0, 7.0]),
        ("{a: 1e, b: 1.2.3}", {"a": "1e", "b": "1.2.3"}),
        ("{a: 2001-01-01, b: e5}", {"a": "2001-01-01", "b": "e5"}),
        ('{"\\ud83d\\ude00": "a\\ud800\\udc00"}', {"\U0001f600": "a\U00010000"}),
        ("\U0001f600", "\U0001f600"),
    ],
)
def test_read_value_parses_yaml(text, value):
    assert read_value(text) == value
    assert type(read_value(text)) is type(value)


@pytest.mark.parametrize(
    ("assignments", "objective"),
    [
        (["objective.metric=val_loss"], {"metric": "val_loss"}),
        (
            ["objective.metric=val_loss", "objective.mode=max"],
            {"metric": "val_loss", "mode": "max"},
        ),
        (["objective.metric=epoch_s"], {"metric": "epoch_s", "mode": "max"}),
        (["objective.mode=min"], {"metric": "val_accuracy", "mode": "min"}),
        (["objective={metric: val_loss}"], {"metric": "val_loss"}),
    ],
)
def test_override_metric_resets_mode(assignments, objective):
    raw = {"objective": {"metric": "val_accuracy", "mode": "max"}}
    assert apply_assignments(raw, assignments)["objective"] == objective
    assert apply_assignments({}, ["objective.metric=x"]) == {
        "objective": {"metric": "x"}
    }
    assert apply_assignments(raw, ["objectives=[{metric: x}]"]) == {
        "objectives": [{"metric": "x"}]
    }


def test_with_strategy_keeps_constraints():
    search = {"space": {"lr": "uniform(0, 1)"}, "forbid": ["lr > 0.5"]}
    known = {"points_to_evaluate": [{"lr": 0.1}]}
    raw = {"search": {"strategy": "bayesopt", **search, **known, "startup": 5}}
    assert replace_strategy(raw, "hyperopt") == {
        "search": {"strategy": "hyperopt", **search, **known}
    }
    assert replace_strategy(raw, "random") == {
        "search": {"strategy": "random", **search, **known}
    }
    mine = "my_package.my_searcher"
    assert replace_strategy(raw, mine) == {"search": {"strategy": mine, **search}}


def test_override_strategy_and_scheduler_drop_other_settings():
    raw = {
        "search": {"strategy": "bayesopt", "space": {}, "startup": 5},
        "scheduler": {"max_t": 9, "grace_period": 3},
    }
    named = ["search.strategy=random", "scheduler.name=none"]
    assert apply_assignments(raw, named)["search"] == {
        "strategy": "random",
        "space": {},
    }
    assert apply_assignments(raw, named)["scheduler"] == {"name": "none", "max_t": 9}
    assert (
        apply_assignments(raw, ["search.strategy=7"])["search"]["startup"] == 5
    )  # which is refused


@pytest.mark.parametrize(
    "text",
    ["seed: [1", "[1]", "1: 2"],
)
def test_read_mapping_invalid_text_is_refused(snapshot, text):
    with snapshot.raises(SpecError):
        read_mapping(text, "x.yaml")


@pytest.mark.parametrize("written", ["none", None, {"name": "none"}])
def test_override_max_t_keeps_scheduler_none(written):
    raw = {"scheduler": written}
    assert apply_assignments(raw, ["scheduler.max_t=5"]) == {
        "scheduler": {"name": "none", "max_t": 5}
    }
    assert raw == {"scheduler": written}


def test_override_call_with_a_mapping_needs_no_quotes():
    domain = "choice([{'kind': 'a', 'width': randint(1, 9)}, {'kind': 'b'}])"
    raw = apply_assignments(MINIMAL, [f"search.space.head={domain}"])
    assert raw["search"]["space"]["head"] == domain


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\nb: 2\na: 3",
        "x:\n  - a: 1\n    a: 1",
        '{"a": 1,\n "a": 2}',
        "{a: 1, 'a': 2}",
        "9" * LONGEST_NUMBER,
        "9" * (LONGEST_NUMBER + 1),
        '["\\ud83d"]',
        "a:\n\tb: 1",
    ],
)
def test_read_value_invalid_text_is_refused(text, snapshot):
    with snapshot.raises(ValueError):
        read_value(text)


def test_override_searches_what_was_a_constant():
    raw = {"training": {"width": 32, "model": "cnn"}, "search": {"space": {"lr": 0.1}}}
    changed = apply_assignments(raw, ["search.space.width=choice([8, 16])"])
    assert changed["training"] == {"model": "cnn"}
    assert changed["search"]["space"]["width"] == "choice([8, 16])"
    both = apply_assignments(
        raw, ["search.space.width=choice([8, 16])", "training.width=4"]
    )
    assert both["training"]["width"] == 4  # which the spec refuses
