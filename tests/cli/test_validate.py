"""The commands validate and spec."""

import json
import re
import sys
from dataclasses import asdict

import photos
import pytest
from commands import call, fetch_json, refusal
from fresh import ran
from synthetic import Writer, make_folder

from tuner.errors import SpecError
from tuner.reporting.doctor import Finding
from tuner.reporting.reference import find_section, render_reference
from tuner.spec.code import IMAGE_CLASSIFIER


def test_validate_shows_plan_and_spec_and_starts_nothing(here):
    code = "from tuner.cli.main import cli; cli.main(['validate', 'digits'], standalone_mode=False)"
    done = ran(code)
    assert done.stdout.startswith("digits would run\n")
    assert not done.modules & {
        "ray",
        "torch",
        "pandas",
        "tuner.ray_compat",
        "concurrent.futures",
    }
    assert not list(here.iterdir())
    shown = fetch_json("validate", "digits")
    assert shown["spec"]["name"] == "digits"
    assert shown["trials"] == shown["spec"]["num_samples"]
    assert shown["a_trial_reserves"] == {"cpus": 1, "gpus": 0}
    assert fetch_json("run", "digits", "--dry-run") == shown
    assert not list(here.iterdir())


def test_validate_summary_shows_networks():
    assert "networks" not in fetch_json("validate", "digits")
    done = call("validate", "digits", "--json", "--summary", "training.freeze=head")
    [network] = json.loads(done.stdout)["networks"]
    assert network["model"] == "cnn"
    assert network["stages"][0]["output"] == [network["settings"]["width"], 8, 8]
    assert (
        network["trainable"]
        == network["parameters"] - network["stages"][-1]["parameters"]
    )
    text = call("validate", "digits", "--summary").stdout
    assert f"{network['parameters']:,} parameters, " in text


@pytest.fixture
def photo_folder(here, data_home):
    return photos.write(here / "photos", each=12)


@pytest.mark.parametrize("command", [["validate"], ["run"], ["run", "--dry-run"]])
def test_faults_of_images_and_networks_show_before_anything_starts(
    command, photo_folder
):
    layers = call(*command, "folder:photos", "training.freeze=tail").exception
    assert (
        "training.freeze: matches no parameter, got 'tail'; available: _conv_stem"
        in str(layers)
    )
    (photo_folder / "rose/0003.jpg").write_bytes(b"no image")
    image = call(*command, "folder:photos").exception
    assert "1 of 36 images cannot be read: " in str(image)
    assert str(image).endswith("; training.skip_unreadable=true trains without them")
    assert layers.exit_code == image.exit_code == 2
    assert not (photo_folder.parent / "results").exists()


SMALL = ("folder:photos", "training.model=cnn")  # a plan measures a step of the network


def test_validate_and_run_warn_of_objective_in_wrong_direction(photo_folder):
    warning = (
        "objective.mode=min takes the trial with the lowest val_accuracy for the best"
    )
    arguments = (*SMALL, "objective.metric=val_accuracy", "objective.mode=min")
    assert warning in " ".join(call("validate", *arguments).stdout.split())
    # Ends the run before Ray starts
    (photo_folder / "rose/0003.jpg").write_bytes(b"no image")
    assert f"warning: {warning}\n" in call("run", *arguments).stderr


@pytest.mark.parametrize("command", ["validate", "run"])
def test_a_name_that_exists_is_exit_code_2_and_points_to_resume(digits, command):
    for named in (["--name", "digits"], ["name=digits"]):
        refused = call(command, "digits", *named).exception
        assert refused.exit_code == 2
        assert "tuner resume digits" in str(refused)


@pytest.fixture
def first(here):
    """A search of two cells of a grid of four, of which the third failed."""
    space = {"lr": "choice([0.1, 1.0])", "momentum": "choice([0.0, 0.9])"}
    folder = make_folder(
        here / "results/first",
        trainable=IMAGE_CLASSIFIER,
        search={"strategy": "grid", "space": space, "order": "rows"},
        scheduler={
            "name": "asha",
            "max_t": 4,
            "grace_period": 4,
            "reduction_factor": 4,
        },
        training={"model": "cnn", "dataset": "digits"},
        metric="val_loss",
        mode="min",
        num_samples=None,
    )
    writer = Writer(folder)
    for number, lr in enumerate((0.1, 1.0)):
        values = [{"val_loss": 0.5}] * 4
        writer.trial(number, values, config={"lr": lr, "momentum": 0.0})
    writer.trial(2, config={"lr": 0.1, "momentum": 0.9}, error=("nan", "m"))
    writer.end()
    return folder


def test_like_copies_the_spec_and_learns_from_its_trials(snapshot, first):
    done = call("validate", "--like", "first", "--json")
    snapshot(done.stderr)
    plan = json.loads(done.stdout)
    spec = plan["spec"]
    assert (spec["name"], spec["warm_start"], plan["trials"]) == ("first-2", "first", 2)
    changes = (
        "scheduler.max_t=8",
        "--search",
        "bohb",
        "num_samples=20",
        "--name",
        "second",
    )
    spec = fetch_json("validate", "--like", "first", *changes)["spec"]
    assert (spec["name"], spec["search"]["strategy"]) == ("second", "bohb")
    assert spec["warm_start"] == "first"
    cold = call("validate", "--like", "first", "warm_start=null", "--json")
    assert (json.loads(cold.stdout)["trials"], cold.stderr) == (4, "")


def test_validate_lists_the_experiments_that_a_search_begins_with(snapshot, first):
    options = ("--like", "first", "--json", "--search", "random", "num_samples=2")
    several = call("validate", *options, "--from", "first", "--from", ".")
    snapshot(several.stderr)
    assert json.loads(several.stdout)["spec"]["warm_start"] == ["first", "."]
    assert (
        json.loads(call("validate", *options, "--from", ".").stdout)["spec"][
            "warm_start"
        ]
        == "."
    )
    snapshot(refusal("validate", *options, "--from", "first", "--from", "firts"))
    for names in ('["first", 3]', "[]"):
        snapshot(refusal("validate", *options, f"warm_start={names}", kind=SpecError))


def test_validate_takes_experiment_or_like(first):
    assert "give EXPERIMENT, --command TEXT or --like NAME" in refusal("validate")
    assert "got 'digits' and 'first'" in refusal("run", "digits", "--like", "first")
    assert "no experiment 'frist'" in refusal("run", "--like", "frist")


def test_validate_command_needs_no_experiment(snapshot, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    command = f"{sys.executable} train.py --lr {{lr}}"
    space = ("search.space.lr=uniform(0, 1)", "search.space.depth=3", "num_samples=2")
    plan = fetch_json("validate", "--command", command, *space)
    assert plan["spec"]["name"] == "train"
    assert plan["spec"]["trainable"]["command"] == command.split()
    snapshot("\n".join(plan["notes"]))
    (tmp_path / "spec.yaml").write_text(
        "search: {space: {lr: 'uniform(0, 1)'}}\nnum_samples: 3"
    )
    spec = fetch_json("validate", "spec.yaml", "--command", command)["spec"]
    assert (spec["name"], spec["num_samples"]) == ("spec", 3)
    for wrong in ("python 'x", f"{sys.executable} tran.py", "no-such-program {lr}"):
        fault = str(call("validate", "--command", wrong, *space).exception)
        snapshot(fault, varying={re.escape(sys.executable): "PYTHON"})


def test_spec_prints_all_or_a_part():
    assert call("spec").stdout == f"{render_reference()}\n"
    assert call("spec", "search.space").stdout == f"{find_section('search.space')}\n"


FINE = Finding("machine", "memory", "8 GiB")
BROKEN = Finding("storage", "space", "none", "broken", "make room")


@pytest.mark.parametrize(("findings", "code"), [([FINE], 0), ([FINE, BROKEN], 1)])
def test_doctor_exit_code_is_1_if_broken(monkeypatch, findings, code):
    monkeypatch.setattr(
        "tuner.reporting.doctor.check_setup", lambda storage, address: findings
    )
    done = call("doctor")
    assert done.return_value == code
    assert all(finding.found in done.stdout for finding in findings)
    shown = fetch_json("doctor")
    assert shown == {
        "ok": not code,
        "findings": [asdict(finding) for finding in findings],
    }
