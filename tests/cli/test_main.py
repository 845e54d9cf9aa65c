"""The command line: its help, exit codes and streams, as a user meets them."""

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import get_args
from unittest.mock import Mock

import click
import pytest
from click.testing import CliRunner
from commands import call, refusal
from fresh import ran

from tuner.cli import main as command_line
from tuner.cli.main import cli
from tuner.cli.options import Section
from tuner.errors import UsageError
from tuner.experiment.results import listing

COMMANDS = list(cli.commands)


def test_help_lists_every_command_whole_and_in_order():
    done = CliRunner().invoke(cli, ["--help"])
    sections = re.findall(r"^(\S.*):\n((?:  .*\n?)+)", done.stdout, flags=re.MULTILINE)[
        1:
    ]
    assert [title for title, _ in sections] == list(get_args(Section))
    lines = "".join(text for _, text in sections).splitlines()
    assert [line.split()[0] for line in lines] == COMMANDS
    assert COMMANDS[0] == "run"
    assert not [line for line in lines if line.endswith("...")]


def commands_below(command):
    yield command
    for child in getattr(command, "commands", {}).values():
        yield from commands_below(child)


EXAMPLES = [
    example
    for command in commands_below(cli)
    for example in getattr(command, "examples", ())
]


@pytest.mark.parametrize("example", EXAMPLES)
def test_help_examples_parse_as_commands(example, tmp_path, monkeypatch):
    """Its words are read as they would be when it runs, and nothing is run."""
    monkeypatch.chdir(tmp_path)
    for name in ("server.pem", "server.key"):
        (tmp_path / name).touch()
    program, *words = shlex.split(example.partition(" > ")[0])
    assert program == "tuner"
    command = cli
    while isinstance(command, click.Group):
        command = command.commands[words.pop(0)]
    monkeypatch.setenv("RAY_API_SERVER_ADDRESS", "http://HEAD:8265")
    with command.make_context(command.name, words) as context:
        assert context.params
    assert example in CliRunner().invoke(cli, [example.split()[1], "--help"]).stdout


def test_new_module_adds_its_command(tmp_path, monkeypatch):
    """A new file beside the others is all that it takes."""
    (tmp_path / "hello.py").write_text(
        "import click\nfrom tuner.cli.options import Command\n"
        "@click.command(cls=Command, section='Look', order=0)\n"
        "def hello():\n    'Greet.'\n"
    )
    code = (
        "import sys, tuner.cli; tuner.cli.__path__.append(sys.argv.pop()); "
        "from tuner.cli.main import main; main()"
    )
    command = [sys.executable, "-c", code, "--help", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert re.search(
        r"^Look:\n  hello +Greet\.\n  ls ", done.stdout, flags=re.MULTILINE
    )


HELLO = """
import click
import tuner

@click.command()
@click.argument("name")
def hello(name):
    click.echo(tuner.load_results(name).get_best_trial().trial_id)
    return 3
"""


def test_command_of_a_package_is_listed_and_runs(install, digits):
    install("tuner-lab", HELLO, commands=("hello", "hello"))
    help_text = call("--help").stdout
    assert help_text.endswith("\n\nPackages:\n  hello of tuner-lab 1.0\n")
    assert "tuner_lab" not in sys.modules
    done = call("hello", "digits")
    assert (done.stdout, done.return_value) == ("00002\n", 3)
    assert "Usage: cli hello [OPTIONS] NAME" in call("hello", "--help").stdout
    assert "did you mean 'digits'?" in refusal("hello", "digitz")


@pytest.mark.parametrize("code", ["import nothing_of_that_name", "def hello(): ..."])
def test_broken_command_of_a_package_is_refused_alone(install, digits, snapshot, code):
    install("tuner-lab", code, commands=("hello", "hello"))
    snapshot(refusal("hello", "digits"))
    assert call("show", "digits").return_value is None


def test_command_that_ships_is_not_replaced(install, digits, caplog):
    install("tuner-lab", HELLO, commands=("show", "hello"))
    assert "Best trial 00002" in call("show", "digits").stdout
    assert "Packages:" not in call("--help").stdout
    assert caplog.messages == [
        "show of tuner-lab 1.0 is ignored: tuner has a command of that name"
    ]


def test_unknown_command_lists_all(install, snapshot):
    install("tuner-lab", HELLO, commands=("hello", "hello"))
    snapshot(refusal("hallo"))


@pytest.mark.parametrize("arguments", [["runn"], ["best", "x", "--top", "0"]])
def test_wrong_usage_is_exit_code_2(arguments, run_main):
    done = run_main(*arguments)
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr


@pytest.mark.parametrize(
    "command", ["show", "best", "evaluate", "resume", "tensorboard"]
)
def test_unknown_name_is_exit_code_2_with_a_hint(digits, command):
    done = call(command, "digitz")
    assert (done.exception.exit_code, done.stdout) == (2, "")
    assert "did you mean 'digits'?" in str(done.exception)


def test_closed_stdout_is_exit_code_141(digits):
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.run(
        [sys.executable, "-m", "tuner", "show", "digits"],
        stdout=writer,
        stderr=subprocess.PIPE,
    )
    os.close(writer)
    assert (process.returncode, process.stderr) == (141, b"")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_outside_of_a_search_sets_the_exit_code(number, monkeypatch, run_main):
    monkeypatch.setattr(
        listing, "list_experiments", lambda _: os.kill(os.getpid(), number)
    )
    done = run_main("ls")
    assert (done.code, done.stderr.strip()) == (128 + number, "aborted")


def test_help_imports_nothing_heavy():
    code = (
        "from tuner.cli.main import cli\n"
        "try: cli.main(['run', '--help'])\n"
        "except SystemExit: pass"
    )
    heavy = "ray torch pandas numpy sklearn pydantic rich yaml socket difflib logging"
    heavy += " importlib.metadata fastapi starlette uvicorn"
    assert not ran(code).modules & {*heavy.split()}


def test_show_imports_nothing_heavy(digits):
    done = ran(
        "from tuner.cli.main import cli; cli(['show', 'digits'], standalone_mode=False)"
    )
    assert "Best trial 00002" in done.stdout
    heavy = {"ray", "torch", "pandas", "numpy", "yaml", "optuna", "plotly", "jinja2"}
    assert not done.modules & heavy


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_full_disk_below_stdout_is_one_error(here, unbuffered):
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    command = [sys.executable, "-m", "tuner", "validate", "digits"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, env=environment, text=True
        )
    assert done.returncode == 1
    assert done.stderr == "error: cannot write the output: No space left on device\n"


def test_stdout_that_lacks_a_letter_shows_its_escape_sequence(here):
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [
        sys.executable,
        "-m",
        "tuner",
        "validate",
        "digits",
        "--name",
        "x",
        "--storage",
        "é",
    ]
    done = subprocess.run(command, capture_output=True, env=environment, text=True)
    assert done.returncode == 0, done.stderr
    assert "\\xe9" in done.stdout


def test_missing_directory_or_home_is_refused(snapshot, monkeypatch, tmp_path):
    command_line.check_here()
    refused = snapshot.raises(UsageError)
    with monkeypatch.context() as patched, refused:
        patched.setattr(Path, "home", Mock(side_effect=RuntimeError))
        command_line.check_here()
    monkeypatch.chdir(tmp_path)
    tmp_path.rmdir()
    with snapshot.raises(UsageError):
        command_line.check_here()
