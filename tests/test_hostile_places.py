"""A machine where Ray cannot run: each command says so in a sentence.

What needs root makes a namespace of its own, so that the machine stays as it is.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tuner.cluster import access

NAMESPACE = ("unshare", "--mount")


def output_of(first, *arguments):
    """The exit code of a command, and all that it says; `first` is done in the same shell."""
    modules = os.pathsep.join(filter(os.path.isabs, sys.path))
    command = [
        *NAMESPACE,
        "sh",
        "-c",
        f'{first} exec "$@"',
        "sh",
        sys.executable,
        "-m",
        "tuner",
    ]
    done = subprocess.run(
        [*command, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": modules},
        cwd="/",
    )
    return done.returncode, (done.stdout + done.stderr).splitlines()


@pytest.mark.parametrize(
    ("options", "reason"),
    [("ro", "Read-only file system"), ("nr_inodes=1", "No space left on")],
)
def test_command_without_temporary_folder_is_refused(options, reason):
    if (
        os.getuid() != 0
        or subprocess.run([*NAMESPACE, "true"], check=False).returncode != 0
    ):
        pytest.skip(f"needs root, and {' '.join(NAMESPACE)}")
    if Path(sys.prefix).is_relative_to(access.TEMPORARY):
        pytest.skip(f"needs a Python that does not lie in {access.TEMPORARY}")
    storage = Path("/var/tmp/tuner-never-made")
    mount = f"mount -t tmpfs -o {options} tmpfs {access.TEMPORARY};"
    code, lines = output_of(
        mount, "run", "digits", "--num-samples", "1", "--storage", storage
    )
    begins, error = lines
    assert code == 1
    assert begins.endswith("starting the workers")
    assert error.startswith(
        f"error: Ray needs a folder in {access.TEMPORARY}: {reason}"
    )
    assert not storage.exists()
    code, lines = output_of(mount, "doctor", "--storage", storage)
    assert code == 1
    assert any(line.startswith("broken  machine, temporary files: ") for line in lines)
