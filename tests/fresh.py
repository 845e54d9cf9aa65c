"""What a fresh interpreter prints and has loaded after some code."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple


class Ran(NamedTuple):
    """stdout: what it printed. modules: the names of all that was imported by then."""

    stdout: str
    modules: set[str]


def ran(code: str, *arguments: str | Path, cwd: Path | None = None) -> Ran:
    """Runs `code` with these arguments in `sys.argv`; an exception in it fails the test."""
    code = f"{textwrap.dedent(code)}\nimport sys\nprint('', *sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    stdout, _, modules = done.stdout.rstrip("\n").rpartition("\n")
    return Ran(stdout, set(modules.split()))
