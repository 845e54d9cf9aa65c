"""The command line, called in this process or run as a real one."""

import json
import os
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from tuner.cli.main import cli
from tuner.errors import UsageError

# As a trainable: it can be imported, and has no test split
A_FUNCTION = "commands:a_function"
CONNECT = "tuner.cluster.connect.connect"
GOOD = {
    "training": {"model": "cnn", "dataset": "digits"},
    "search": {"space": {"lr": "loguniform(1e-3, 1)"}},
    "scheduler": {"max_t": 2},
    "num_samples": 4,
}


def a_function(config):
    """Trains nothing."""


def call(*arguments):
    """What a command returns or raises in this process."""
    return CliRunner().invoke(cli, [str(a) for a in arguments], standalone_mode=False)


def fetch_json(*arguments):
    """The document that a command prints with --json."""
    return json.loads(call(*arguments, "--json").stdout)


def refusal(*arguments, kind=UsageError):
    """Why a command refuses."""
    error = call(*arguments).exception
    assert isinstance(error, kind), error
    return str(error)


def start(*arguments, by=subprocess.Popen, **options):
    """A real process of the command line."""
    command = [sys.executable, "-m", "tuner", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return by(command, env=environment, **options)


def tuner(*arguments, **options):
    """A real process of the command line, when it has ended."""
    return start(
        *arguments, by=subprocess.run, capture_output=True, text=True, **options
    )


def text_of(path, spec):
    Path(path).write_text(json.dumps(spec))
    return path
