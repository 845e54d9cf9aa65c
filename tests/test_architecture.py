"""The layers of the code, held by its imports: each module imports from below only."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
OURS = ("tuner", "search_spaces", "experiments")

# From the top down. A module imports from its own line and the lines below it; an entry that is
# a package stands for all modules in it that no other line names.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("tuner.__main__",),
    ("tuner.cli",),
    ("tuner.commands",),
    ("tuner.commands.outcome", "tuner.commands.options"),
    ("experiments",),
    ("search_spaces",),
    ("tuner",),
    ("tuner.confirm",),
    ("tuner.doctor", "tuner.driver", "tuner.jobs"),
    ("tuner.checks",),
    ("tuner.checks.every_node",),
    ("tuner.checks.machine", "tuner.checks.openness"),
    ("tuner.checks.disk", "tuner.checks.finding", "tuner.checks.store"),
    ("tuner.cluster", "tuner.continuation", "tuner.reporting", "tuner.retention"),
    ("tuner.own_ray",),
    ("tuner.joined",),
    ("tuner.joined.each",),
    ("tuner.joined.nodes",),
    ("tuner.refinement",),
    ("tuner.recorder", "tuner.reuse", "tuner.schedulers", "tuner.searchers", "tuner.trials"),
    ("tuner.retries",),
    ("tuner.resolution",),
    ("tuner.evaluation", "tuner.experiments", "tuner.plan"),
    ("tuner.validation",),
    ("tuner.best",),
    ("tuner.comparison", "tuner.confirmations", "tuner.listing", "tuner.trials_table"),
    ("tuner.confirmation",),
    ("tuner.results",),
    ("tuner.sessions",),
    ("tuner.access", "tuner.daemons", "tuner.export", "tuner.frames", "tuner.guard"),
    ("tuner.notebook",),
    ("tuner.lean_ray", "tuner.model_card", "tuner.provenance"),
    ("tuner.exported", "tuner.held_out", "tuner.interchange"),
    ("tuner.best_so_far",),
    ("tuner.checkpoints", "tuner.journal", "tuner.selection", "tuner.storage"),
    ("tuner.training",),
    ("tuner.occupancy", "tuner.savings"),
    ("tuner.assignment", "tuner.history", "tuner.spec"),
    ("tuner.remote.upkeep",),
    ("tuner.remote.mirror",),
    ("tuner.remote",),
    ("tuner.remote.lease",),
    ("tuner.remote.objects", "tuner.remote.places"),
    ("tuner.sections", "tuner.spec_text", "tuner.strategies"),
    ("tuner.constraints", "tuner.digest", "tuner.events", "tuner.grid"),
    ("tuner.rungs", "tuner.spread"),
    ("tuner.domains",),
    ("tuner.owner", "tuner.parts", "tuner.plain_files"),
    (
        "tuner.background",
        "tuner.clock",
        "tuner.ending",
        "tuner.errors",
        "tuner.plain_values",
        "tuner.ray_internals",
        "tuner.reporting.wording",
    ),
)

# No test file of their name
UNTESTED_BY_NAME = {
    "tuner/__init__.py": "names only; every other test imports through it",
    "tuner/__main__.py": "one call; test_cli runs it",
    **{
        f"tuner/commands/{name}.py": "test_cli calls its commands, as a user does"
        for name in ("checking", "handing_over", "judging", "looking", "outcome", "searching")
    },
    **{
        f"tuner/checks/{name}.py": "test_doctor plays the machine that they look at"
        for name in ("disk", "finding", "joined", "machine", "openness", "store", "versions")
    },
    "tuner/commands/__init__.py": "a docstring",
    "tuner/domains/__init__.py": "names only; its modules' tests import through it",
    "tuner/assignment.py": "a record without behaviour",
    "tuner/training/rank_group.py": "tests/integration/test_several_workers.py, for it needs Ray",
}


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


FILES = {name_of(path): path for top in OURS for path in sorted((ROOT / top).rglob("*.py"))}


def imports_of(name: str, *, top_level: bool = False) -> set[str]:
    """The modules that the module `name` imports, wherever in it, but not for types alone."""
    found: set[str] = set()
    for node in nodes(ast.parse(FILES[name].read_text()), top_level=top_level):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} imports relatively"
            module = node.module or ""
            inner = {f"{module}.{alias.name}" for alias in node.names}
            modules = {full for full in inner if full in FILES}
            found |= modules or {module}
    return found


def nodes(tree: ast.AST, *, top_level: bool) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if top_level and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        yield node
        yield from nodes(node, top_level=top_level)


def layer_of(name: str) -> int:
    """How far down `name` is, by the longest entry that it is or lies in."""
    ranks = {entry: rank for rank, line in enumerate(LAYERS) for entry in line}
    while name not in ranks or (name == "tuner" and name not in FILES):
        name, dot, _ = name.rpartition(".")
        assert dot, "no layer"
    return ranks[name]


def ours(names: set[str]) -> set[str]:
    return {name for name in names if name.split(".")[0] in OURS}


@pytest.mark.parametrize("name", [n for n in FILES if n != "tuner"])
def test_every_module_has_a_layer(name: str) -> None:
    entries = {entry for line in LAYERS for entry in line} - {"tuner"}
    assert any(name == entry or name.startswith(f"{entry}.") for entry in entries), (
        f"{name} stands in no layer: give it its place in LAYERS"
    )


@pytest.mark.parametrize("name", FILES)
def test_imports_point_down(name: str) -> None:
    up = [other for other in ours(imports_of(name)) if layer_of(other) < layer_of(name)]
    assert not up, f"{name} imports from above: {up}"


def test_there_is_no_import_cycle() -> None:
    graph = {name: ours(imports_of(name)) - {name} for name in FILES}
    TopologicalSorter(graph).prepare()  # raises CycleError


def below(name: str) -> set[str]:
    """All that importing or using the module `name` may import of ours, itself included."""
    found, todo = set(), [name]
    while todo:
        module = todo.pop()
        if module in FILES and module not in found:
            found.add(module)
            todo += imports_of(module)
    return found


def test_the_driver_knows_neither_spaces_nor_training() -> None:
    names = imports_of("tuner.driver")
    assert not [n for n in names if n.startswith(("search_spaces", "experiments"))]
    assert not [n for n in names if n.startswith("tuner.training")]


@pytest.mark.parametrize("name", [n for n in FILES if n.startswith("tuner.training")])
def test_training_knows_nothing_of_the_search(name: str) -> None:
    above = ("spec", "driver", "results", "journal", "searchers", "schedulers", "cli", "recorder")
    assert not imports_of(name) & {f"tuner.{module}" for module in above}


@pytest.mark.parametrize("name", [n for n in FILES if n.startswith("tuner.training")])
def test_only_what_runs_in_a_trial_of_tune_imports_ray(name: str) -> None:
    tops = {module.split(".")[0] for module in imports_of(name)}
    assert "ray" not in tops or name.rpartition(".")[2] in ("trainable", "rank_group", "deaths")


@pytest.mark.parametrize("name", [n for n in FILES if n.startswith("search_spaces")])
def test_search_spaces_see_the_spec_and_rays_domains_only(name: str) -> None:
    assert imports_of(name) <= {"__future__", "tuner.spec", "ray.tune", "ray"}


@pytest.mark.parametrize("name", [n for n in FILES if n.startswith("experiments")])
def test_experiments_see_spaces_and_spec(name: str) -> None:
    assert {n.split(".")[0] for n in ours(imports_of(name)) - {"tuner.spec"}} <= {"search_spaces"}


def imported_by(statement: str) -> set[str]:
    """The top-level packages that a fresh interpreter has loaded after `statement`."""
    code = f"import sys; {statement}; print(*{{name.split('.')[0] for name in sys.modules}})"
    command = [sys.executable, "-c", code]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return set(done.stdout.split())


def test_what_a_spec_needs_imports_neither_ray_nor_torch() -> None:
    modules = ("spec", "domains", "parts", "errors", "validation", "plan", "experiments")
    loaded = imported_by("; ".join(f"import tuner.{module}" for module in modules))
    assert not loaded & {"ray", "torch", "pandas", "sklearn", "hyperopt", "optuna"}


def test_the_command_line_starts_without_anything_heavy() -> None:
    heavy = {"ray", "torch", "pandas", "numpy", "sklearn", "pydantic", "rich", "yaml"}
    assert not imported_by("import tuner.cli") & heavy


def test_results_are_read_without_ray_and_torch() -> None:
    assert not imported_by("import tuner.results, tuner.reporting.text") & {"ray", "torch"}


def test_a_learner_trains_with_no_ray() -> None:
    loaded = imported_by(
        "from tuner.training.classifier import ImageClassifier as C; "
        "C({}, {'model': 'cnn', 'dataset': 'digits', 'epochs': 1, 'width': 2}).step()"
    )
    assert "torch" in loaded
    assert "ray" not in loaded


@pytest.mark.parametrize("path", [FILES[n] for n in FILES if n.startswith("tuner")], ids=str)
def test_every_module_has_a_test_of_its_name(path: Path) -> None:
    relative = path.relative_to(ROOT)
    if str(relative) in UNTESTED_BY_NAME:
        assert UNTESTED_BY_NAME[str(relative)]
        return
    if path.name == "__init__.py" and len(path.read_text().splitlines()) <= 1:
        return  # a docstring, or nothing
    stem = path.parent.name if path.name == "__init__.py" else path.stem
    tests = ROOT / "tests" / Path(*relative.parts[1:-1])
    assert (tests / f"test_{stem}.py").is_file(), f"{relative} has no {tests}/test_{stem}.py"


def test_exceptions_from_that_rule_are_still_needed() -> None:
    for name in UNTESTED_BY_NAME:
        assert (ROOT / name).is_file()
        assert (
            not (ROOT / "tests" / Path(name).parent.relative_to("tuner"))
            .joinpath(f"test_{Path(name).stem}.py")
            .is_file()
        )


def test_helpers_live_with_their_concept() -> None:
    vague = re.compile(r"(?:utils?|helpers?|common|misc)\.py")
    assert not [
        path for path in ROOT.glob("*/**/*.py") if _is_ours(path) and vague.match(path.name)
    ]


def _is_ours(path: Path) -> bool:
    return path.relative_to(ROOT).parts[0] in (*OURS, "tests", "benchmarks")
