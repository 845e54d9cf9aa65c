"""What experiment.json says of where an experiment comes from."""

import platform
import subprocess
from importlib.metadata import version

from tuner.planning.validation import validate
from tuner.search.provenance import create, describe
from tuner.spec.experiment import build_spec

SPEC = build_spec({"search": {"space": {"lr": "uniform(0, 1)"}}, "num_samples": 1, "seed": 7})


def test_the_spec_its_seed_and_the_versions():
    told = describe(SPEC)
    assert told["spec"] == SPEC.model_dump(mode="json")
    assert (told["format"], told["seed"]) == (1, 7)
    assert told["versions"]["python"] == platform.python_version()
    assert told["versions"]["ray"] == version("ray")


def test_create_records_the_baseline_of_the_validation_split(tmp_path):
    spec = validate(
        SPEC.replace(storage=str(tmp_path), search={"space": {"lr": "uniform(0.1, 1)"}})
    )
    spec.pin_data()
    document = create(spec).document()
    assert document["validation"] == {"images": 360, "baseline": 37 / 360}


def test_the_commit_of_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert describe(SPEC)["git_revision"] is None
    author = ("-c", "user.name=test", "-c", "user.email=test@localhost")
    subprocess.run(["git", "init", "-q"], check=True)
    subprocess.run(["git", *author, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    head = subprocess.run(["git", "log", "-1", "--format=%H"], check=True, capture_output=True)
    assert describe(SPEC)["git_revision"] == head.stdout.decode().strip()
    monkeypatch.setenv("PATH", "")
    assert describe(SPEC)["git_revision"] is None
