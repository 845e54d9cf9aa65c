"""The README is true: its files are written, its commands are run, its output is what comes.

The commands run one after the other as in one shell, which has what those before have given it and
nothing else: no `tuner` on its PATH, for one, until the README says how to have it.
"""

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from pages import IN_ONE_PROCESS, ROOT, Page, find_shape, with_options

PAGE = Page("README.md")
README = PAGE.text
LIMIT_S = 300
SWEEP = "tuner run digits training.width=4 scheduler.max_t=3"
# Than the page's searches
SMALLER = f"{IN_ONE_PROCESS} --num-samples 4 scheduler.max_t=2"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A newcomer's folder after `make sweep`, with the files that the README shows, and images."""
    folder = tmp_path_factory.mktemp("newcomer")
    (folder / ".venv").symlink_to(sys.prefix, target_is_directory=True)
    for name in ("photos", "new_photos"):
        write_photos(folder / name)
    unnamed = {*PAGE.blocks("(?:python|yaml)")} - {*PAGE.files.values()}
    assert not unnamed, "a block of code says what file it is"
    PAGE.write_files(folder)
    return folder


def write_photos(folder):
    """60 small JPEGs in a sub-folder for each of three classes, which differ in their colour."""
    from PIL import Image

    for number, name in enumerate(("cats", "dogs", "owls")):
        (folder / name).mkdir(parents=True)
        for seed in range(60):
            colour = [
                (seed * 3 + 80 * (channel == number)) % 256 for channel in range(3)
            ]
            Image.new("RGB", (40, 32), tuple(colour)).save(
                folder / name / f"{seed}.jpg"
            )


class Shell:
    """A newcomer's: each command finds the variables, as PATH, that the one before has left."""

    def __init__(self, folder):
        self.folder = folder
        removed = {"TUNER_STORAGE", "VIRTUAL_ENV", "PYTHONHOME"}
        self.environment = {k: v for k, v in os.environ.items() if k not in removed}
        self.environment["PATH"] = os.pathsep.join(
            entry
            for entry in os.environ["PATH"].split(os.pathsep)
            if not any((Path(entry) / name).exists() for name in ("tuner", "ray"))
        )

    def run(self, command):
        left = self.folder.parent / "environment"
        line = f"{command}\ncode=$?; env -0 > '{left}'; exit $code"
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        pairs = (pair.partition("=") for pair in left.read_text().split("\0") if pair)
        self.environment = {name: value for name, _, value in pairs}
        return done


@pytest.fixture
def shell(folder):
    return Shell(folder)


def activated(shell):
    """The shell after what the README says of having `tuner`."""
    assert shell.run("tuner --version").returncode == 127, (
        "found before the README says how"
    )
    line = next(line for line in PAGE.commands if line.startswith("source "))
    assert shell.run(line).returncode == 0
    return shell


def test_tuner_is_on_path_after_second_command(shell):
    assert PAGE.commands[0].startswith("make sweep ")
    assert PAGE.commands[1].startswith("source ")
    done = activated(shell).run("tuner --version")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("tuner, version ")


@pytest.mark.docs
def test_page_commands_run(shell):
    folder = shell.folder
    for command in PAGE.commands:
        if command.startswith("make "):
            continue  # see below
        if command.startswith("tuner tensorboard"):
            assert_serves(command, shell)
            continue
        done = shell.run(with_options(command, SMALLER))
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        assert done.stdout or command.startswith("source "), command
    assert (folder / "my_model/model.safetensors").is_file()
    shown = {path.name for path in (folder / "photos_model").iterdir()}
    assert shown == {"README.md", "config.json", "metrics.json", "model.safetensors"}


def assert_serves(command, shell):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = shlex.split(command, comments=True)
    program = shutil.which(words[0], path=shell.environment["PATH"])
    assert program
    server = subprocess.Popen(
        [program, *words[1:], "--port", str(port)],
        cwd=shell.folder,
        env=shell.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert "00000" in runs_of(f"http://127.0.0.1:{port}/data/runs")
    finally:
        server.terminate()
        server.wait(timeout=LIMIT_S)


def runs_of(url):
    """What TensorBoard answers once it is up and has read the runs."""
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(url) as answer:
                text = str(answer.read(), "utf-8")
        except OSError:
            text = "[]"
        if text.strip() != "[]":
            return text
        time.sleep(0.5)
    raise AssertionError(f"{url} shows no runs")


def test_makefile_has_commands_of_readme():
    lines = [line for line in PAGE.commands if line.startswith("make ")]
    assert [line.split()[1] for line in lines] == ["sweep", "test"]
    makefile = (ROOT / "Makefile").read_text()
    assert SWEEP in makefile
    assert SWEEP in README
    assert "make test" in (ROOT / ".ci/run").read_text()


@pytest.mark.slow
def test_make_sweep_ends_as_shown(tmp_path):
    folder = tmp_path / "newcomer"
    folder.mkdir()
    (folder / ".venv").symlink_to(sys.prefix, target_is_directory=True)
    done = activated(Shell(folder)).run(SWEEP)
    assert done.returncode == 0, done.stderr
    shown = PAGE.block("digits: completed").replace(".venv/bin/", "")
    assert find_shape(done.stdout) == find_shape(shown)


def test_readme_lists_every_strategy():
    from tuner.experiment.resolve import load_experiment
    from tuner.spec.experiment import build_spec
    from tuner.spec.strategies import SEARCHERS

    listed = re.findall(r"^\| `(\w+)` \|.*\| `(\w+)` \|$", README, flags=re.MULTILINE)
    assert sorted(strategy for strategy, _ in listed) == SEARCHERS.list_names()
    for strategy, experiment in listed:
        assert build_spec(load_experiment(experiment).raw).search.strategy == strategy
