"""From an experiment's name, file or module:function, and what is overridden, to a spec."""

import json
import sys
from pathlib import Path

import pytest
from prepared import resolve_spec
from synthetic import make_folder, read_document

from tuner.errors import SpecError, UsageError
from tuner.experiment.resolve import describe, list_experiment_names, load_experiment
from tuner.spec.code import IMAGE_CLASSIFIER
from tuner.spec.experiment import build_spec
from tuner.spec.validation import validate

SHIPPED = Path(__file__).parents[2] / "experiments"
SPEC = "ExperimentSpec(search={'space': {'lr': 'uniform(0, 1)'}}, num_samples=2)"
MODULE = f"from tuner.spec.experiment import ExperimentSpec\ndef experiment():\n    return {SPEC}\n"


@pytest.fixture(autouse=True)
def imports_as_before():
    path = list(sys.path)
    modules = set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.startswith(("experiments", "mine", "sweep")):
            del sys.modules[name]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TUNER_STORAGE", raising=False)
    spec = {"search": {"space": {"lr": "loguniform(0.01, 1)"}}, "num_samples": 4}
    (tmp_path / "mine.json").write_text(json.dumps(spec))
    return tmp_path


def test_resolve_applies_assignments():
    spec, source = resolve_spec("mine.json", ["seed=1", "seed=2", "scheduler.max_t=3"])
    assert (spec.name, spec.seed, spec.epochs, spec.num_samples) == ("mine", 2, 3, 4)
    assert source.endswith("mine.json")


def test_resolve_uses_the_next_free_name(snapshot, here):
    make_folder(here / "results/mine")
    assert resolve_spec("mine.json")[0].name == "mine-2"
    assert resolve_spec("mine.json", [f"storage={here}/other"])[0].name == "mine"
    with snapshot.raises(UsageError):
        resolve_spec("mine.json", ["name=mine"])


def test_resolve_fault_names_the_file_or_the_command_line(snapshot, tmp_path):
    bad = {**read_document(Path("mine.json")), "seed": -1}
    Path("bad.json").write_text(json.dumps(bad))
    with snapshot.raises(SpecError):
        resolve_spec("bad.json")
    with snapshot.raises(SpecError):
        resolve_spec("bad.json", ["scheduler.max_t=0"])


@pytest.mark.parametrize("name", sorted(file.stem for file in SHIPPED.glob("*.py")))
def test_shipped_experiments_are_valid(name, tmp_path):
    experiment = load_experiment(name, tmp_path)
    assert experiment.name == name
    assert name in list_experiment_names(tmp_path)
    assert validate(experiment.raw, machine=None).trials


def test_load_experiment_prefers_the_working_directory(tmp_path):
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments/digits.py").write_text(MODULE)
    (tmp_path / "experiments/mine.py").write_text(MODULE)
    assert build_spec(load_experiment("digits", tmp_path).raw).num_samples == 2
    assert load_experiment("mine", tmp_path).name == "mine"
    assert load_experiment("cifar10_net", tmp_path).name == "cifar10_net"
    assert {"cifar10_net", "cifar10_resnet", "digits", "mine"} <= set(
        list_experiment_names(tmp_path)
    )


def test_load_experiment_reads_files_and_functions(tmp_path):
    (tmp_path / "sweep1.py").write_text(MODULE.replace("def experiment", "def make"))
    (tmp_path / "sweep2.py").write_text(MODULE)
    spec = build_spec(load_experiment("sweep1:make", tmp_path).raw)
    (tmp_path / "sweep.yaml").write_text(
        spec.to_yaml().replace("name: experiment\n", "")
    )
    (tmp_path / "sweep.json").write_text(spec.to_json())
    assert build_spec(load_experiment("sweep2.py", tmp_path).raw) == spec
    assert load_experiment("sweep.yaml", tmp_path).name == "sweep"
    assert build_spec(load_experiment("sweep.json", tmp_path).raw) == spec


@pytest.mark.parametrize(
    "text",
    [
        "digit",
        "../x",
        "nowhere:make",
        "missing.py",
        "missing.yaml",
        "json:nothing",
        "getpass:getuser",
    ],
)
def test_load_experiment_missing_is_refused(snapshot, text, tmp_path):
    with snapshot.raises(UsageError, varying={r"/\S+/lib/python[\d.]+": "PYTHON"}):
        load_experiment(text, tmp_path)


@pytest.mark.parametrize(
    "code",
    [
        "import nothere_at_all",
        "\ndef experiment(:",
        "def experiment():\n    return 1 / 0",
        "raise SystemExit(1)",
        MODULE.replace("num_samples=2", "num_samples=0"),
    ],
)
def test_load_experiment_user_errors_have_the_line(snapshot, code, tmp_path):
    (tmp_path / "sweep3.py").write_text(code)
    with snapshot.raises(
        UsageError, SpecError, varying={r"SyntaxError: .*": "SyntaxError: WHY"}
    ):
        load_experiment("sweep3.py", tmp_path)


def test_resolve_recorded_experiment_gets_a_free_name(tmp_path):
    spec = {
        "trainable": "commands:a_function",
        "training": {},
        "storage": "/elsewhere",
        "seed": 7,
    }
    folder = make_folder(tmp_path / "results/mine", **spec)
    spec, source = resolve_spec(str(folder / "experiment.json"), ["num_samples=9"])
    assert (spec.name, spec.storage, spec.seed) == ("mine-2", "./results", 7)
    assert (spec.num_samples, spec.trainable) == (9, "commands:a_function")
    assert source == str(folder / "experiment.json")


def test_resolve_recorded_default_config_goes_with_another_space(tmp_path):
    search = {"strategy": "random", "space": {"lr": "loguniform(0.01, 1)"}}
    search["points_to_evaluate"] = [{"lr": 0.1}]
    fields = {
        "trainable": IMAGE_CLASSIFIER,
        "training": {"model": "cnn", "dataset": "digits"},
    }
    folder = make_folder(tmp_path / "results/a", search=search, **fields)
    file = str(folder / "experiment.json")
    same, other = (
        resolve_spec(file, space)[0]
        for space in ([], ["search.space.lr=uniform(0.5, 1)"])
    )
    assert same.search.points_to_evaluate == ({"lr": 0.1},)
    assert other.search.points_to_evaluate == ()


def test_load_experiment_function_sees_no_arguments(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["tuner", "run", "spaces.py:small"])
    (tmp_path / "spaces.py").write_text(
        "import sys\nassert len(sys.argv) == 1\n"
        "def small():\n    return {'name': 'argv', 'num_samples': len(sys.argv)}\n"
    )
    loaded = load_experiment("spaces.py:small", tmp_path)
    assert (loaded.name, loaded.raw["num_samples"]) == ("argv", 1)
    assert sys.argv == ["tuner", "run", "spaces.py:small"]


def test_describe_reads_docstrings_without_running_code(tmp_path):
    folder = tmp_path / "experiments"
    folder.mkdir()
    (folder / "mine.py").write_text('"""My search.\n\nMore."""\nraise SystemExit\n')
    (folder / "broken.py").write_text("def (")
    (folder / "binary.py").write_bytes(b"\0\xff")
    described = describe(tmp_path)
    assert [*described] == list_experiment_names(tmp_path)
    assert (described["mine"], described["broken"], described["binary"]) == (
        "My search.",
        "",
        "",
    )
    assert described["digits"].startswith("A small CNN")
