"""Configs and points of the unit cube: there and back, branches, what the space does not have."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.spec.settings import FaultsError
from tuner.spec.space.domains import Choice, Numeric
from tuner.spec.space.encoding import Encoding, check_superset, complete_config
from tuner.spec.space.parsing import parse_domain, parse_space
from tuner.spec.space.spaces import quantile, transform
from tuner.testing.spaces import spaces

SPACE = {
    "lr": "loguniform(1e-4, 1)",
    "units": "randint(1, 5)",
    "opt": "choice([{'name': 'sgd', 'momentum': uniform(0, 1)}, {'name': 'adam'}])",
    "kind": "choice(['a', 'b', 'c'])",
    "size": "choice([16, 32, 64])",
    "fixed": 3,
}
SGD = {"name": "sgd", "momentum": 0.5}
CONFIG = {"lr": 0.01, "units": 2, "opt": SGD, "kind": "b", "size": 32, "fixed": 3}


def encoding(space=SPACE):
    return Encoding(parse_space(space))


def test_encoding_has_a_column_for_each_domain_and_centres_of_cells():
    columns = encoding().columns
    assert [column.path for column in columns] == [
        *("lr", "units", "opt", "opt.momentum", "kind", "size")
    ]
    assert [(c.parent, c.branch) for c in columns if c.path == "opt.momentum"] == [
        (2, 0)
    ]
    # Sizes have an order
    assert [column.categories for column in columns] == [0, 0, 2, 0, 3, 0]
    assert encoding().encode(CONFIG) == pytest.approx([0.5, 0.375, 0.25, 0.5, 0.5, 0.5])
    assert np.isnan(encoding().encode({**CONFIG, "opt": {"name": "adam"}})[3])


@given(spaces, st.data())
def test_decode_inverts_encode(space, data):
    ours = Encoding(space)
    u_D = [data.draw(st.floats(0, 1)) for _ in range(len(ours))]
    config = ours.decode(u_D)
    there = ours.encode(config)
    assert ((there >= 0) & (there <= 1) | np.isnan(there)).all()
    again = ours.decode(there)
    assert ours.encode(again) == pytest.approx(there, abs=1e-6, nan_ok=True)


def test_snap_equals_encoding_of_decoded_point():
    ours = encoding()
    u_ND = np.random.default_rng(0).random((50, len(ours)))
    for u_D, snapped_D in zip(u_ND, ours.snap(u_ND), strict=True):
        config = ours.decode(u_D)
        assert ours.encode(config) == pytest.approx(snapped_D, nan_ok=True)
        assert np.isnan(snapped_D[3]) == (config["opt"]["name"] == "adam")


@pytest.mark.parametrize(
    "change",
    [
        {"lr": 2.0},
        {"units": 5},
        {"kind": "d"},
        {"opt": {"name": "lbfgs"}},
        {"opt": {**SGD, "momentum": 3.0}},
        {"opt": {"name": "sgd"}},
        {"rate": 1},
    ],
)
def test_encode_names_values_outside_the_space(change, snapshot):
    with snapshot.raises(FaultsError):
        encoding().encode({**CONFIG, **change})


def test_complete_fills_only_missing_values(snapshot):
    ours = encoding()
    full = ours.complete({"lr": 0.3, "opt": {"name": "sgd"}}, np.full(len(ours), 0.9))
    assert (full["lr"], full["opt"]) == (0.3, {"name": "sgd", "momentum": 0.9})
    assert (full["units"], full["kind"], full["size"], full["fixed"]) == (4, "c", 64, 3)
    with snapshot.raises(FaultsError):
        ours.complete({"kind": "d"}, np.full(len(ours), 0.9))


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("uniform(0, 4)", 1, 0.25),
        ("loguniform(1, 100)", 10, 0.5),
        ("quniform(0, 1, 0.25)", 0.3, None),
        ("randint(0, 4)", 0, 0.125),
        ("randint(3, 4)", 3, 0.5),
        ("randn(1, 2)", 1, 0.5),
        ("uniform(0, 1)", float("nan"), None),
    ],
)
def test_quantile_inverts_at(text, value, expected):
    assert quantile(parse_domain(text), value) == pytest.approx(expected)


def test_config_of_refuses_incomplete_or_foreign_values(snapshot):
    space = parse_space(SPACE)
    values = {**CONFIG, "lr": 1}
    del values["fixed"]
    assert complete_config(space, values) == {**CONFIG, "lr": 1.0}
    with snapshot.raises(FaultsError):
        complete_config(
            space, {**{n: v for n, v in CONFIG.items() if n != "units"}, "kind": "d"}
        )
    with snapshot.raises(FaultsError):
        complete_config(space, {**CONFIG, "fixed": 4})
    with snapshot.raises(FaultsError):
        complete_config(space, CONFIG, ["lr < 0.1"])


def lost(old, new):
    spaces = (parse_space({"x": domain} | {"y": 1}) for domain in (old, new))
    return [fault.key for fault in check_superset(*spaces)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("uniform(0, 1)", "uniform(-1, 1)"),
        ("quniform(0, 1, 0.25)", "quniform(0, 1.5, 0.25)"),
        ("randn(0, 1)", "randn(0, 1)"),
        ("choice(['a', 'b'])", "choice(['c', 'b', 'a'])"),
        ("choice([{'k': 'uniform(0, 1)'}])", "choice([2, {'k': 'uniform(0, 2)'}])"),
        ({"k": "uniform(0, 1)"}, {"k": "uniform(0, 2)"}),
        (0.5, "uniform(0, 1)"),
    ],
)
def test_not_contained_is_empty_only_for_the_wider_space(old, new):
    assert lost(old, new) == []
    assert lost(new, old) == (
        [] if old == new else ["x.k" if isinstance(old, dict) else "x"]
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("uniform(1, 2)", "loguniform(1, 2)"),
        ("quniform(0, 1, 0.5)", "quniform(0, 1, 0.25)"),
        ("randn(0, 1)", "randn(0, 2)"),
        ("choice([1])", "choice([True, 2])"),
        ("choice([{'k': 1}])", "choice([{'k': 1, 'm': 2}])"),
        (3, "uniform(0, 1)"),
        ("uniform(0, 1)", {"k": "uniform(0, 1)"}),
    ],
)
def test_not_contained_has_domains_that_shrink_or_change_kind(old, new):
    assert lost(old, new) == ["x"]


def test_not_contained_has_names_that_come_or_go(snapshot):
    old, new = (
        parse_space({"lr": "uniform(0, 1)", name: 1}) for name in ("depth", "width")
    )
    snapshot("\n".join(map(str, check_superset(old, new))))


@given(spaces, st.integers(0, 9))
def test_wider_space_has_every_earlier_config(space, seed):
    rng = np.random.default_rng(seed)

    def wider(_, domain):
        if isinstance(domain, Numeric):
            return replace(
                domain, upper=domain.upper + rng.integers(3) * (domain.step or 1)
            )
        if isinstance(domain, Choice) and rng.random() < 0.5:
            return Choice((*domain.values, "another"))
        return domain

    grown = transform(space, wider)
    old = Encoding(space)
    assert list(check_superset(space, grown)) == []
    # Raises for a value outside
    Encoding(grown).encode(old.decode(rng.random(len(old))))
