"""The README is true: its files are written, its commands are run, its output is what comes."""

from __future__ import annotations

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

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
LIMIT_S = 300


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A newcomer's folder, with the files that the README shows."""
    folder = tmp_path_factory.mktemp("newcomer")
    for kind, text in BLOCKS:
        name = re.match(r"# ([\w/]+\.(?:py|yaml))\n", text)
        if kind in ("python", "yaml"):
            assert name, f"a {kind} block says what file it is:\n{text}"
            (folder / name[1]).parent.mkdir(exist_ok=True)
            (folder / name[1]).write_text(text)
    return folder


def commands() -> list[str]:
    lines = "".join(text for kind, text in BLOCKS if kind == "console").splitlines()
    assert all(line.startswith("$ ") for line in lines)
    return [line.removeprefix("$ ") for line in lines]


def environment() -> dict[str, str]:
    bin_folder = str(Path(sys.executable).parent)
    kept = {k: v for k, v in os.environ.items() if k != "TUNER_STORAGE"}
    return {**kept, "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}"}


@pytest.mark.docs
def test_every_command_works(folder: Path) -> None:
    for command in commands():
        if command.startswith("make "):
            continue  # see below
        if command.startswith("tuner tensorboard"):
            assert_serves(command, folder)
            continue
        done = subprocess.run(
            command,
            shell=True,
            cwd=folder,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        assert done.stdout, command
    assert (folder / "my_model" / "model.safetensors").is_file()
    assert (folder / "with_program" / "model.pt2").is_file()
    shown = names_in("results/first/")
    assert shown >= {"experiment.json", "journal.jsonl", "trials/00000/"}
    assert all((folder / "results" / "first" / name).exists() for name in shown)
    assert {path.name for path in (folder / "best_model").iterdir()} == names_in("best_model/")


def names_in(head: str) -> set[str]:
    """What the README's picture of a folder shows."""
    tree = next(text for kind, text in BLOCKS if text.startswith(f"{head}\n"))
    return {line.split()[0] for line in tree.splitlines()[1:]}


def assert_serves(command: str, folder: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = shlex.split(command, comments=True)
    program = shutil.which(words[0], path=environment()["PATH"])
    assert program
    server = subprocess.Popen(
        [program, *words[1:], "--port", str(port)],
        cwd=folder,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert "00000" in runs_of(f"http://127.0.0.1:{port}/data/runs")
    finally:
        server.terminate()
        server.wait(timeout=LIMIT_S)


def runs_of(url: str) -> str:
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


def test_make_sweep_is_what_it_says() -> None:
    lines = [line for line in commands() if line.startswith("make ")]
    assert [line.split()[1] for line in lines] == ["sweep", "test"]
    makefile = (ROOT / "Makefile").read_text()
    assert "tuner run digits" in makefile
    assert "make test" in (ROOT / ".ci" / "run").read_text()


@pytest.mark.slow
def test_make_sweep_ends_as_shown(tmp_path: Path) -> None:
    done = subprocess.run(
        ["tuner", "run", "digits"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    shown = next(text for kind, text in BLOCKS if text.startswith("digits: completed"))
    assert words_of(done.stdout) == words_of(shown)


def words_of(text: str) -> list[str]:
    """The words of a summary without its numbers, which differ from run to run."""
    text = text.replace(".venv/bin/tuner", "tuner")
    return [word for word in re.findall(r"[A-Za-z_][A-Za-z_/:]*", text) if word != "e"]


def test_what_it_names_is_there() -> None:
    for path in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / path).exists(), path
    layout = next(text for kind, text in BLOCKS if text.startswith("experiments/  "))
    for indent, path in re.findall(r"^( *)([\w/]+/) ", layout, flags=re.MULTILINE):
        assert (ROOT / ("tuner" if indent else "") / path).is_dir(), path
    for path in re.findall(r"`([\w/]+\.py)`", README):
        written_by_the_reader = path in ("my_learner.py", "experiments/NAME.py")
        assert written_by_the_reader or (ROOT / path).exists(), path
    for module in re.findall(r"python -m (benchmarks\.\w+)", README):
        assert (ROOT / f"{module.replace('.', '/')}.py").exists(), module


def test_the_strategies_are_those_there_are() -> None:
    from tuner.planning.resolve import load_experiment
    from tuner.spec.experiment import build_spec
    from tuner.spec.strategies import SEARCHERS

    listed = re.findall(r"^\| `(\w+)` \|.*\| `(\w+)` \|$", README, flags=re.MULTILINE)
    assert sorted(strategy for strategy, _ in listed) == SEARCHERS.names()
    for strategy, experiment in listed:
        assert build_spec(load_experiment(experiment).raw).search.strategy == strategy


def test_the_layout_shows_every_package() -> None:
    layout = next(text for kind, text in BLOCKS if text.startswith("experiments/  "))
    packages = {path.parent.name for path in (ROOT / "tuner").glob("*/__init__.py")}
    assert set(re.findall(r"^  (\w+)/ ", layout, flags=re.MULTILINE)) == packages
