"""Who can reach the Ray that we start: nobody from outside, and nobody without its token."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import ray
from commands import tuner
from sockets import outside

from tuner import ray_compat
from tuner.cluster import access
from tuner.cluster import connect as cluster
from tuner.trial import guard

JOIN = """
import sys, ray
ray.init(address=sys.argv[1], log_to_driver=False)
print("joined", ray.get(ray.remote(lambda: 1).remote()))
"""


def start_join(folder, **environment):
    """A process of the same machine that joins our Ray with this environment."""
    ours = (access.AUTH_MODE, access.TOKEN, access.TOKEN_PATH, guard.MARK)
    inherited = {name: value for name, value in os.environ.items() if name not in ours}
    fast = {
        "RAY_NUM_REDIS_GET_RETRIES": "2",
        ray_compat.CLUSTERS: "0",
        "HOME": str(folder),
    }
    return subprocess.Popen(
        [sys.executable, "-c", JOIN, ray.get_runtime_context().gcs_address],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**inherited, **fast, **environment},
    )


def test_nobody_joins_without_the_token(ray_here, tmp_path):
    wrong = {access.AUTH_MODE: "token", access.TOKEN: "0" * 64}
    right = {
        access.AUTH_MODE: "token",
        access.TOKEN_PATH: os.environ[access.TOKEN_PATH],
    }
    # At the same time, as those without the token repeat their request for a while
    joining = [start_join(tmp_path, **environment) for environment in ({}, wrong)]
    stdout, stderr = start_join(tmp_path, **right).communicate()
    assert stdout == "joined 1\n", stderr
    for process in joining:
        stdout, stderr = process.communicate()
        assert process.returncode != 0
        assert "Unauthenticated" in stderr
        assert "joined" not in stdout


def test_ray_files_are_private_to_user(ray_here):
    folder = Path(cluster.find_scratch_folder())
    assert folder.stat().st_mode & 0o077 == 0
    assert Path(os.environ[access.TOKEN_PATH]).stat().st_mode & 0o077 == 0


def test_local_ray_listens_on_loopback_only(of_two_workers):
    [trial] = of_two_workers.trials.values()
    assert trial.status == "completed"
    assert trial.results[0].metrics["listening"] > 3
    assert trial.results[0].metrics["outside"] == 0
    assert outside([os.getpid()]) == []


def doctor(storage, **environment):
    """What `tuner doctor --address` says of our Ray, and its exit code."""
    address = ray.get_runtime_context().gcs_address
    command = ("doctor", "--storage", storage, "--address", address, "--json")
    with access.set_environment({"RAY_NUM_REDIS_GET_RETRIES": "2", **environment}):
        done = tuner(*command)
    findings = json.loads(done.stdout)["findings"]
    return done.returncode, {(f["topic"], f["name"]): f for f in findings}


@pytest.mark.slow
def test_doctor_finds_no_fault_in_local_ray(ray_here, tmp_path):
    code, by_name = doctor(tmp_path)
    assert code == 0
    assert by_name["cluster", "authentication"]["found"] == "with a token"
    assert by_name["cluster", "joined"]["level"] == "ok"
    assert by_name["nodes", "127.0.0.1"]["found"].startswith(
        "shares the storage; CPUs: "
    )


@pytest.mark.slow
def test_doctor_without_token_reports_refused_access(ray_here, tmp_path):
    code, by_name = doctor(tmp_path, **{access.TOKEN: "0" * 64})
    assert code == 1
    joined = by_name["cluster", "joined"]
    assert joined["level"] == "broken"
    assert "another token than that of RAY_AUTH_TOKEN" in joined["found"]
