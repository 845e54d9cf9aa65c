"""The command line as integration tests drive it, in this process or in one of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from tuner.cli import main as cli

HERE = Path(__file__).parent


def call(*arguments):
    """What a command gives in this process: `return_value` is its exit code."""
    done = CliRunner().invoke(cli.cli, list(map(str, arguments)), standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done


def shown(*arguments):
    """The document that a command shows with --json."""
    return json.loads(call(*arguments, "--json").stdout)


def start(*arguments, cwd, **options):
    """The command as a process that leads a group, as a shell starts it, with our trainables."""
    return subprocess.Popen(
        [sys.executable, "-m", "tuner", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])},
        cwd=cwd,
        start_new_session=True,
        **options,
    )
