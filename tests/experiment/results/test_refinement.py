"""Refining: the region of the leaders, within the bounds, as a file that runs."""

from pathlib import Path

import pytest
from confirmed import retrained, searched
from hypothesis import assume, given
from hypothesis import strategies as st
from prepared import resolve_spec
from synthetic import Writer, ended, make_folder

from tuner.errors import NoUsableTrialError, SpecError, UsageError
from tuner.experiment.results.refinement import narrow_space, refine, write_refined
from tuner.experiment.results.results import Results
from tuner.spec.code import IMAGE_CLASSIFIER
from tuner.spec.space.domains import Domain
from tuner.spec.space.encoding import Encoding
from tuner.spec.space.grid import Grid
from tuner.spec.space.parsing import parse_space
from tuner.spec.space.spaces import config_at, format_space, list_domains
from tuner.testing.spaces import spaces


def text(space, configs):
    return format_space(narrow_space(parse_space(space), configs))


@pytest.mark.parametrize(
    ("domain", "values"),
    [
        ("loguniform(1e-4, 1)", [0.01, 0.1, 0.02]),
        ("uniform(0, 1)", [0.123456, 0.7]),
        ("randint(0, 100)", [50, 60]),
        ("qrandint(0, 64, 16)", [32, 48]),
        ("quniform(0, 1, 0.1)", [0.5, 0.3]),
        ("randn(0, 1)", [0.5, -0.25]),
        ("choice([16, 32, 64])", [64, 16, 64]),
        ("grid_search(['a', 'b'])", ["b"]),
    ],
)
def test_narrowed_domain_spans_the_values(snapshot, domain, values):
    space = text({"x": domain, "k": 3}, [{"x": value, "k": 3} for value in values])
    snapshot.compare_value(space)


def test_narrowed_branch_uses_its_configs():
    momentum = "{'kind': 'sgd', 'm': uniform(%s)}"
    adam = "{'kind': 'adam', 'e': choice(%s)}"
    space = {"opt": f"choice([{momentum % '0, 1'}, {adam % [1, 2]}, 3])"}
    sgd = [{"opt": {"kind": "sgd", "m": m}} for m in (0.4, 0.6)]
    assert text(space, sgd) == {"opt": f"choice([{momentum % '0.3, 0.6'}])"}
    both = [*sgd, {"opt": {"kind": "adam", "e": 2}}]
    assert text(space, both) == {
        "opt": f"choice([{momentum % '0.3, 0.6'}, {adam % [2]}])"
    }


@given(spaces, st.integers(1, 4), st.randoms(use_true_random=False))
def test_narrowed_space_holds_leaders_within_bounds(space, count, random):
    assume(any(True for _ in list_domains(space)))
    configs = [config_at(space, lambda _: random.random()) for _ in range(count)]
    region = narrow_space(space, configs)
    assert parse_space(format_space(region)) == region  # as YAML it is read back
    for config in configs:
        Encoding(region).encode(config)  # raises where it is outside
    grid = Grid(region, lambda _: 2)
    for index in range(min(grid.size, 20)):
        Encoding(space).encode(grid[index])


def test_write_refined_file_resolves(snapshot, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TUNER_STORAGE", raising=False)
    space = {"lr": "loguniform(0.001, 1)"}
    search = searched(
        tmp_path / "results/digits",
        {0.1: 0.90, 0.2: 0.95, 0.3: 0.93, 0.001: 0.1},
        trainable=IMAGE_CLASSIFIER,
        search={"strategy": "random", "space": space, "forbid": ["lr > 0.35"]},
    )
    refinement = refine(search, points=4)
    assert [trial.trial_id for trial in refinement.leading] == [
        "00001",
        "00002",
        "00000",
    ]
    path = write_refined(refinement, None)
    assert path == Path("digits-refined.yaml")
    snapshot(path.read_text())
    spec, _ = resolve_spec(str(path))
    assert (spec.name, spec.folder) == (
        "digits-refined",
        Path("results/digits-refined"),
    )
    assert spec.trials == 3  # of the four values the largest is forbidden
    assert (spec.num_samples, spec.scheduler.max_t) == (None, 10)
    # The best, whatever is left out
    assert spec.search.build(0).suggest("0") == {"lr": 0.2}
    for refused in (None, Path("x.txt"), Path("nowhere/x.yaml")):
        with snapshot.raises(UsageError):
            write_refined(refinement, refused)
    monkeypatch.setenv("TUNER_STORAGE", "elsewhere")
    assert Path(refine(search, points=2).spec.storage) == tmp_path / "results"


def test_refine_refuses_unsuitable_searches(snapshot, tmp_path):
    search = searched(tmp_path / "digits", {0.1: 0.9})
    with snapshot.raises(UsageError):
        refine(retrained(search, [[0.9, 0.8]]), points=3)
    with snapshot.raises(SpecError):
        refine(search, points=0)
    with pytest.raises(NoUsableTrialError):
        refine(Results(ended(tmp_path / "none")), points=3)


def test_refine_drops_constraints_on_removed_options(tmp_path):
    search = {
        "strategy": "random",
        "space": {"o": "choice([{'m': uniform(0, 1)}, {'e': uniform(0, 1)}])"},
        "forbid": ["o.e > 0.5", "o.m > 0.99"],
    }
    writer = Writer(make_folder(tmp_path / "x", search=search))
    writer.trial(0, [0.9], config={"o": {"m": 0.5}})
    writer.end()
    spec = refine(writer.results, points=2).spec
    assert spec.search.forbid == ("o.m > 0.99",)
    assert isinstance(spec.search.space["o"], Domain)
