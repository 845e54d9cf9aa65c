"""Connecting to Ray, with Ray itself played; real ones are started in integration/."""

import os
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from tuner import access, cluster
from tuner.errors import ExperimentError, UsageError
from tuner.spec import Resources, build_spec


class FakeRay(SimpleNamespace):
    """Remembers what it was asked."""

    __version__ = "played"

    def __init__(self, *, connected=False, error=None, resources=None):
        self.calls = []
        self.connected = connected
        self.error = error
        self.resources = resources

    def init(self, **options):
        self.calls.append(("init", options))
        if self.error:
            raise self.error

    def shutdown(self):
        self.calls.append(("shutdown",))

    def is_initialized(self):
        return self.connected

    def cluster_resources(self):
        return self.resources


@contextmanager
def removes(mark, folder):
    """A guard in an orderly end."""
    yield
    shutil.rmtree(folder)


@pytest.fixture
def play(monkeypatch):
    """Puts a fake Ray in place, and keeps everything else from starting or staying."""

    def put(**options):
        fake = FakeRay(**options)
        monkeypatch.setitem(sys.modules, "ray", fake)
        monkeypatch.delenv(cluster.guard.MARK, raising=False)  # of the integration tests' own Ray
        monkeypatch.setattr(cluster, "_FOR_THE_DRIVER", ("json",))
        monkeypatch.setattr(cluster, "_silence_daemons", lambda: None)
        monkeypatch.setattr(cluster.access, "_tell_ray", lambda: None)
        monkeypatch.setattr(cluster.guard, "start", removes)
        monkeypatch.setattr(cluster.guard, "end", lambda *arguments: fake.calls.append(("end",)))
        for name in cluster._ENVIRONMENT:
            monkeypatch.setenv(name, "mine")
        return fake

    return put


def test_a_local_ray_is_started_with_our_cpus_and_ended(play, monkeypatch):
    fake = play()
    monkeypatch.delenv(access.AUTH_MODE, raising=False)
    before = dict(os.environ)
    with cluster.connect():
        [(_, options)] = fake.calls
        assert options["address"] == "local"
        assert options["num_cpus"] == len(os.sched_getaffinity(0))
        assert options["include_dashboard"] is False
        assert len(options["_temp_dir"]) < 30  # a socket's path has at most 107 bytes
        assert f"{cluster.scratch_folder()}/ray" == options["_temp_dir"]
        assert Path(cluster.scratch_folder()).stat().st_mode & 0o777 == 0o700
        assert os.environ[access.TOKEN_PATH].startswith(cluster.scratch_folder())
        assert os.environ[access.AUTH_MODE] == "token"
    assert [name for name, *_ in fake.calls] == ["init", "shutdown", "end"]
    assert cluster.guard.MARK not in os.environ
    assert os.environ == before


def test_it_is_ended_after_an_error_too(play):
    fake = play()
    with pytest.raises(KeyError), cluster.connect():
        raise KeyError("x")
    assert [name for name, *_ in fake.calls] == ["init", "shutdown", "end"]


def test_a_connection_that_is_there_is_used_and_left(play):
    fake = play(connected=True)
    with cluster.connect("auto"):
        assert fake.calls == []
    assert fake.calls == []
    assert cluster.is_connected()


def test_another_cluster_is_joined_and_left(play):
    fake = play()
    with cluster.connect("head:6379"):
        [(_, options)] = fake.calls
        assert options["address"] == "head:6379"
        assert "num_cpus" not in options
    assert [name for name, *_ in fake.calls] == ["init", "shutdown"]


@pytest.mark.parametrize(("token", "said"), [("x", "the token of RAY_AUTH_TOKEN "), ("", "no tok")])
def test_no_answer_is_told(play, monkeypatch, token, said):
    play(error=ConnectionError("refused"))
    for name in (access.AUTH_MODE, access.TOKEN, access.TOKEN_PATH):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(access.TOKEN, token)
    with pytest.raises(UsageError, match=f"answers at 'head:1' .*{said}.*: refused"):  # noqa: SIM117
        with cluster.connect("head:1"):
            pass


def test_a_local_ray_that_does_not_start_is_told(play):
    fake = play(error=RuntimeError("no space"))
    with pytest.raises(ExperimentError, match="Ray did not start on this machine: no space"):  # noqa: SIM117
        with cluster.connect():
            pass
    assert fake.calls[-1] == ("end",)


def test_a_users_own_settings_win(monkeypatch):
    for name in cluster._ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RAY_TQDM", "1")
    cluster.prepare_environment()
    assert os.environ["RAY_TQDM"] == "1"
    assert os.environ["RAY_AIR_NEW_OUTPUT"] == "0"


def test_without_ray_there_is_no_connection(monkeypatch):
    monkeypatch.delitem(sys.modules, "ray", raising=False)
    assert not cluster.is_connected()
    assert "ray" not in sys.modules


@pytest.mark.parametrize(
    ("there", "resources", "slots"),
    [
        ({"CPU": 4}, {"cpus": 1}, 4),
        ({"CPU": 0.3}, {"cpus": 0.1}, 3),
        ({"CPU": 8, "GPU": 2}, {"cpus": 1, "gpus": 0.4}, 4),
        ({"CPU": 8, "GPU": 8}, {"cpus": 1, "gpus": 1, "workers": 4}, 2),
    ],
)
def test_slots(play, there, resources, slots):
    play(resources=there)
    assert cluster.slots(Resources(**resources)) == slots


def test_what_the_cluster_can_never_hold_is_refused(play):
    play(resources={"CPU": 8})
    with pytest.raises(UsageError, match=r"1 x \(1 CPUs, 1 GPUs\), and the cluster has 8 and 0"):
        cluster.slots(Resources(cpus=1, gpus=1))


@pytest.mark.parametrize(
    ("fields", "workers", "trains"),
    [
        ({}, 4, True),
        ({"max_concurrent": 2}, 2, True),
        ({"num_samples": 1}, 1, True),
        ({"resources": {"cpus": 2}}, 2, True),
        ({"resources": {"workers": 2}, "training": {"norm": "group"}}, 6, False),
        ({"trainable": "mine:Learner"}, 4, False),
    ],
)
def test_as_many_workers_as_are_needed_start_ahead_with_what_ships(
    monkeypatch, fields, workers, trains
):
    monkeypatch.setattr(cluster.Machine, "here", lambda: cluster.Machine(cpus=4, gpus=0))
    space = {"lr": "uniform(0, 1)"}
    given = {"name": "x", "search": {"space": space}, "num_samples": 9, **fields}
    spec = build_spec(given)
    training = ["tuner.training.classifier"] if trains else []
    assert cluster._ahead(spec) == (workers, ["ray.tune", *training])
