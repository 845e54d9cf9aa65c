"""A command as a trainable: text that is split once, and placeholders."""

import pickle
import sys
from copy import deepcopy
from pathlib import Path

import pytest

from tuner.errors import SpecError
from tuner.spec.command import Command, read_command
from tuner.spec.experiment import ExperimentSpec, build_spec

SPACE = {"lr": "uniform(0, 1)", "layer": {"width": 3}, "sizes": "choice([[1, 2]])"}


def spec(command, **fields):
    search = {"space": SPACE}
    return build_spec(
        {"trainable": {"command": command}, "search": search, "num_samples": 2}
    )


@pytest.mark.parametrize(
    "command",
    [
        "python train.py --name 'a b' --lr {lr}",
        ["python", "train.py", "--name", "a b", "--lr", "{lr}"],
    ],
)
def test_command_round_trips_as_a_list(command):
    built = spec(command)
    plain = {"command": ["python", "train.py", "--name", "a b", "--lr", "{lr}"]}
    assert built.model_dump(mode="json")["trainable"] == plain
    assert str(built.trainable) == "$ python train.py --name 'a b' --lr {lr}"
    assert ExperimentSpec.from_text(built.to_yaml()) == built
    for again in (
        built.replace(seed=3).trainable,
        pickle.loads(pickle.dumps(built.trainable)),
        deepcopy(built.trainable),
        read_command(built.trainable),
        read_command(plain),
    ):
        assert isinstance(again, Command)
        assert list(again.arguments) == plain["command"]


def test_command_numbers_become_text():
    trainable = spec(["train", "--epochs", 3]).trainable
    assert isinstance(trainable, Command)
    assert trainable.arguments == ("train", "--epochs", "3")


@pytest.mark.parametrize(
    "command", ["train {lrr}", "train {lr", "train 'x", "", ["train", None]]
)
def test_command_invalid_is_refused(snapshot, command):
    with snapshot.raises(SpecError):
        spec(command)


def test_filled_puts_one_value_into_each_argument():
    command = Command(
        ["x", "--lr={lr}", "{name}", "{layer.width}", "{sizes}", "{{lr}}", "{seed}"]
    )
    config = {
        "lr": 1e-05,
        "name": "$(rm -rf /) ; x",
        "layer": {"width": 3},
        "sizes": [1, 2],
    }
    filled = command.build_arguments(config, seed=7)
    assert filled == ["x", "--lr=1e-05", "$(rm -rf /) ; x", "3", "1", "2", "{lr}", "7"]
    assert command.build_arguments({**config, "seed": 8}, seed=7)[-1] == "8"
    with pytest.raises(ValueError, match=r"config has no 'layer\.width'"):
        command.build_arguments({**config, "layer": 1}, seed=7)


@pytest.mark.parametrize(
    ("value", "arguments"),
    [
        (None, []),
        ("", ["--x"]),
        ("--fast", ["--x", "--fast"]),
        ([], ["--x"]),
        ([1, [2]], ["--x", "1", "[2]"]),
        (True, ["--x", "True"]),
        ({"a": 1}, ["--x", '{"a": 1}']),
    ],
)
def test_filled_leaves_out_none_and_repeats_lists(value, arguments):
    assert Command(["run", "--x", "{v}"]).build_arguments({"v": value}, seed=0) == [
        "run",
        *arguments,
    ]


def test_filled_repeats_an_option_with_its_list():
    command = Command(["run", "--x={v}", "{v}:{w}"])
    filled = ["run", "--x=1", "--x=2", "[1, 2]:None"]
    assert command.build_arguments({"v": [1, 2], "w": None}, seed=0) == filled


@pytest.mark.parametrize(
    ("command", "located"),
    [
        ("python train.py --out new.pt", "python {}/train.py --out new.pt"),
        (
            "python train.py --config cfg.yaml",
            "python {0}/train.py --config {0}/cfg.yaml",
        ),
        (
            "python train.py --config=cfg.yaml x=sub",
            "python {0}/train.py --config={0}/cfg.yaml x=sub",
        ),
        ("bash run.sh sub {lr}", "bash {0}/run.sh {0}/sub {lr}"),
        ("python -m sub sub", "python -m sub {}/sub"),
    ],
)
def test_located_names_existing_files_and_folders_by_absolute_paths(
    command, located, tmp_path
):
    (tmp_path / "sub").mkdir()
    for name in ("train.py", "cfg.yaml", "run.sh"):
        (tmp_path / name).touch()
    command_located = Command(command.split()).resolve_paths(tmp_path)
    expected = located.replace("{lr}", "{{lr}}").format(tmp_path).split()
    assert [Path(each) for each in command_located.arguments] == [
        Path(each) for each in expected
    ]


def test_script_is_what_python_alone_runs():
    for command in ("python t.py x.py", "python3.11 -u t.py", f"{sys.executable} t.py"):
        assert Command(command.split()).script == "t.py"
    for command in (
        "python -c x t.py",
        "./python t.py",
        "bash t.py",
        "python",
        "python -m t",
    ):
        assert Command(command.split()).script is None


@pytest.mark.parametrize(
    ("command", "name"),
    [("python a/train.py x.py", "train"), ("python -m x", "python"), ("é", "command")],
)
def test_default_name_is_that_of_the_script(command, name):
    assert Command(command.split()).default_name == name
