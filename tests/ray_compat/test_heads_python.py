"""A job runs with the Python that Ray runs with on the head, or says what that one lacks."""

import subprocess
import sys
from pathlib import Path

import pytest
import ray

from tuner import ray_compat
from tuner.cluster import jobs

# As a raylet starts a worker, and that a job
SUPERVISED = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1], shell=True))"
RAYLET = "import subprocess, sys; sys.exit(subprocess.call([*sys.argv[1:4], sys.argv[4]]))"


def as_a_job(entrypoint, *arguments):
    command = [sys.executable, "-c", RAYLET, sys.executable, "-c", SUPERVISED, entrypoint]
    return subprocess.run([*command, *arguments], capture_output=True, text=True)


def test_heads_python():
    argument = "--python_worker_command=/venv/bin/python /venv/setup_worker.py --more"
    done = as_a_job(ray_compat.HEADS_PYTHON, "--other=1", argument)
    assert (done.returncode, done.stdout) == (0, "/venv/bin/python\n")
    services = Path(ray.__file__).with_name("_private") / "services.py"
    assert "--python_worker_command={" in services.read_text()


def test_where_that_cannot_be_told_it_is_that_of_the_path():
    assert as_a_job(ray_compat.HEADS_PYTHON).stdout == "python\n"


@pytest.mark.parametrize(("lacks", "code"), [("", 0), (" no_such_module", 2)])
def test_what_it_lacks_is_one_sentence(monkeypatch, lacks, code):
    argument = f"--python_worker_command={sys.executable} setup_worker.py"
    find = jobs._FIND_PYTHON.replace(jobs._NEEDED, f"json{lacks}")
    done = as_a_job(f"{find}; exec $python -c 'print(1)'", argument)
    assert (done.returncode, done.stdout) == (code, "" if code else "1\n")
    told = f"error: {sys.executable}, with which Ray runs on the head of the cluster, has no"
    assert done.stderr == (f"{told} no_such_module: install tuner there\n" if code else "")
