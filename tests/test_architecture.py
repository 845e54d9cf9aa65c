"""The layers of the code: a package imports only those below it."""

import ast
import re
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

from fresh import ran

ROOT = Path(__file__).resolve().parent.parent
OURS = ("tuner", "search_spaces", "experiments")
SHIPPED = "tuner.shipped"  # under which those two stand that are not below tuner/

# From the top down, as in the layout of CONTRIBUTING.md. Nothing imports testing.
LAYERS = """
extend testing __main__ cli service search reporting cluster vision trial experiment spec
""".split()  # noqa: SIM905 - a table is easier to read
LEAVES = """
errors deprecation wording places plugins signals streams threads ray_compat shipped
""".split()  # noqa: SIM905


def name_of(path):
    name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
    return name if name.partition(".")[0] == "tuner" else f"{SHIPPED}.{name}"


def files_of(root):
    """Where each module of a checkout is."""
    paths = [path for top in OURS for path in sorted((root / top).rglob("*.py"))]
    return {name_of(path.relative_to(root)): path for path in paths}


FILES = files_of(ROOT)


TEXTS = {name: path.read_text() for name, path in FILES.items()}


def imports_of(name, files=FILES):
    """The modules of ours that `name` imports, anywhere in it, and be it for types alone."""
    imported: set[str] = set()
    for node in ast.walk(ast.parse(files[name].read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} imports relatively"
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            imported |= inner & files.keys() or {node.module or ""}
    return imported & files.keys() - {name}


@cache
def imports_here(name):
    return imports_of(name)


IMPORTS_RAY = re.compile(r"^\s*(import|from) ray\b", re.MULTILINE)


def room_of(name):
    return name.split(".")[1]


def below(prefix):
    """The names of all modules that begin so, except `tuner` itself."""
    return [name for name in FILES if name.startswith(prefix) and name != "tuner"]


def test_packages_import_only_lower_layers():
    for name in below("tuner"):
        lower = LAYERS[LAYERS.index(room_of(name)) :] if room_of(name) in LAYERS else []
        rooms = {room_of(other) for other in imports_here(name) if other != "tuner"}
        assert rooms <= {*lower, *LEAVES}, name


def test_only_command_line_and_contracts_import_the_classifier_or_the_face():
    for name in below("tuner"):
        imports = {
            other.partition(".")[2].partition(".")[0] for other in imports_here(name)
        }
        assert (
            room_of(name) in ("cli", "testing", "vision") or "vision" not in imports
        ), name
        is_above = room_of(name) in ("cli", "__main__", "shipped")
        assert is_above or "tuner" not in imports_here(name), name


def test_there_is_no_import_cycle():
    TopologicalSorter({name: imports_here(name) for name in below("tuner")}).prepare()


def test_the_classifier_needs_no_ray():
    modules = below("tuner.vision")
    assert modules
    assert not [name for name in modules if IMPORTS_RAY.search(TEXTS[name])]


def test_search_spaces_do_not_import_tuner():
    modules = below(f"{SHIPPED}.search_spaces")
    assert modules
    assert not [name for name in modules if imports_here(name)]


def test_experiments_import_only_the_face_and_search_spaces():
    for name in below(f"{SHIPPED}.experiments."):
        spaces = {
            o for o in imports_here(name) if o.startswith(f"{SHIPPED}.search_spaces")
        }
        assert imports_here(name) - spaces == {"tuner"}, name


def test_every_search_space_is_searched_by_an_experiment_that_ships():
    experiments = "".join(TEXTS[name] for name in below(f"{SHIPPED}.experiments."))
    for name in below(f"{SHIPPED}.search_spaces."):
        for space in re.findall(r"^([A-Z]\w+) = ", TEXTS[name], re.MULTILINE):
            assert re.search(
                rf"^from {name} import .*\b{space}\b", experiments, re.MULTILINE
            )


def test_spec_imports_neither_ray_nor_torch():
    beyond = {"tuner.spec.space.encoding"}
    modules = [n for n in FILES if n.startswith("tuner.spec") and n not in beyond]
    modules += ["tuner.vision.declaration", "tuner.experiment.resolve"]
    loaded = ran("; ".join(f"import {module}" for module in modules)).modules
    assert not loaded & {"ray", "torch", "pandas", "sklearn", "hyperopt", "optuna"}


def test_driver_imports_no_torch():
    modules = "tuner.vision.settings, tuner.trial.learner, tuner.trial.trial_process"
    modules += ", tuner.reporting.tensorboard"
    assert "torch" not in ran(f"import {modules}").modules


def test_plan_imports_neither_numpy_nor_cluster():
    shown = "tuner.cli.validate, tuner.spec.plan, tuner.reporting.plan_text"
    loaded = ran(f"import {shown}").modules
    assert not loaded & {"numpy", "tuner.cluster.connect"}


# No test file of their name
UNTESTED_BY_NAME = {
    "tuner/__main__.py": "one call; tests/cli/test_main.py runs it",
    "tuner/shipped.py": "tests/test_packaging.py runs what it finds",
    "tuner/testing/spaces.py": "strategies for property tests, which are the tests' own",
}


def test_every_module_has_test_of_same_name():
    for name in FILES.keys() - {*below(f"{SHIPPED}.")}:
        path = FILES[name].relative_to(ROOT)
        if path.name != "__init__.py":
            test = (
                ROOT
                / "tests"
                / Path(*path.parts[1:-1])
                / f"test_{path.stem.lstrip('_')}.py"
            )
            assert test.is_file() != (str(path) in UNTESTED_BY_NAME), test


# What Ray does not document: its modules, its names with an underscore, and those of its processes
RAYS_INTERNALS = re.compile(
    r"ray\._|ray\.(air|train)\._internal|ray\.tune\.(execution|utils)|ray\.core\.generated"
    r"|ray\.(widgets|dashboard|scripts|autoscaler)|\bray::|__internal_head__|getLogger\(\"ray"
    r"|\bRAY_[a-z]|run_metadata|_system_config|_temp_dir|FunctionTrainable|__ray_|global_worker"
)
OTHERS_PRIVATE_NAME = re.compile(
    r"(?<!self)(?<!cls)(?<!_connected)(?<!\bos)(?<!super\(\))\._[a-z]\w*"
)


def test_only_ray_compat_uses_internals_of_ray():
    for name in FILES.keys() - {*below("tuner.ray_compat")}:
        code = re.sub(r"ray\.__version__|(import|from) tuner\S*", "", TEXTS[name])
        assert not [match.group() for match in RAYS_INTERNALS.finditer(code)], name
        assert not (IMPORTS_RAY.search(code) and OTHERS_PRIVATE_NAME.findall(code)), (
            name
        )


def test_helpers_live_with_their_concept():
    vague = re.compile(r"(?:utils?|helpers?|common|misc)\.py")
    ours = [
        path
        for top in (*OURS, "tests", "benchmarks")
        for path in (ROOT / top).rglob("*.py")
    ]
    assert not [path for path in ours if vague.match(path.name)]
