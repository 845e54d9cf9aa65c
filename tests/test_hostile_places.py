"""Places where nothing can run: each command says so in one sentence.

What needs root makes a namespace of its own, so that the machine stays as it is.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tuner.cluster import access

RUN = ("run", "digits", "--num-samples", "1", "--storage")


def output_of(*arguments, before=(), first="", cwd, **environment):
    """The exit code of a command, and all that it says; `first` is done in the same shell."""
    modules = os.pathsep.join(filter(os.path.isabs, sys.path))
    inherited = {**os.environ, "PYTHONPATH": modules, **environment}
    environ = {name: value for name, value in inherited.items() if value is not None}
    command = [*before, "sh", "-c", f'{first} exec "$@"', "sh", sys.executable, "-m", "tuner"]
    done = subprocess.run(
        [*command, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env=environ,
        cwd=cwd,
    )
    return done.returncode, (done.stdout + done.stderr).splitlines()


def works(*command):
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def needs(*command):
    """Skip aloud where this machine does not let us have such a namespace."""
    if os.getuid() != 0 or not works(*command, "true"):
        pytest.skip(f"needs root, and {' '.join(command)}")


@pytest.mark.parametrize("arguments", [("ls",), ("doctor",), ("validate", "digits")])
def test_command_in_removed_directory_is_refused(tmp_path, arguments):
    gone = tmp_path / "gone"
    gone.mkdir()
    code, lines = output_of(*arguments, first=f"rmdir {gone};", cwd=gone)
    assert (code, lines) == (
        2,
        ["error: the working directory has been removed: go to one that exists"],
    )


def test_command_of_user_without_home_is_refused():
    needs("unshare", "--mount")
    files = ("/etc/passwd", "/etc/nsswitch.conf")  # the other lets systemd know of root
    nobody = "".join(f"mount --bind /dev/null {file};" for file in files)
    code, lines = output_of("ls", before=("unshare", "--mount"), first=nobody, cwd="/", HOME=None)
    rule = "user 0 has no home folder: set HOME to a folder that it can write to"
    assert (code, lines) == (2, [f"error: {rule}"])


def test_storage_with_scheme_in_capitals_is_refused(tmp_path):
    code, lines = output_of("validate", "digits", "--storage", "S3://bucket/x", cwd=tmp_path)
    rule = "a storage's URL begins in small letters: s3://, got 'S3://bucket/x'"
    assert (code, lines) == (2, [f"error: {rule}"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "reason"), [("ro", "Read-only file system"), ("nr_inodes=1", "No space left on")]
)
def test_command_without_temporary_folder_is_refused(options, reason):
    needs("unshare", "--mount")
    if Path(sys.prefix).is_relative_to(access.TEMPORARY):
        pytest.skip(f"needs a Python that does not lie in {access.TEMPORARY}")
    storage = Path("/var/tmp/tuner-never-made")
    where = {"before": ("unshare", "--mount"), "cwd": "/"}
    where["first"] = f"mount -t tmpfs -o {options} tmpfs {access.TEMPORARY};"
    code, [line] = output_of(*RUN, storage, **where)
    assert code == 1
    assert line.startswith(f"error: Ray needs a folder in {access.TEMPORARY}: {reason}")
    assert not storage.exists()
    code, lines = output_of("doctor", "--storage", storage, **where)
    assert code == 1
    assert any(line.startswith("broken  machine, temporary files: ") for line in lines)


def test_command_without_loopback_is_refused(tmp_path):
    needs("unshare", "--net")
    where = {"before": ("unshare", "--net"), "cwd": tmp_path}
    code, [line] = output_of(*RUN, tmp_path / "results", **where)
    assert code == 1
    assert line.startswith("error: Ray did not start on this machine: 127.0.0.1 cannot be reached")
    assert line.endswith("; bring the loopback interface up: ip link set lo up")
    assert list(tmp_path.iterdir()) == []
    code, lines = output_of("doctor", "--storage", tmp_path / "results", **where)
    assert code == 1
    assert any(line.startswith("broken  machine, loopback: ") for line in lines)
