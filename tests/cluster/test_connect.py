"""Connecting to Ray, with Ray itself played; real ones are started in integration/."""

import os
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import ray

from tuner import ray_compat
from tuner.cluster import access
from tuner.cluster import connect as cluster
from tuner.cluster.nodes import Node
from tuner.cluster.tasks import Reply
from tuner.errors import ExperimentError, UsageError
from tuner.spec import quotas
from tuner.spec.experiment import build_spec
from tuner.spec.sections import Resources
from tuner.trial import guard
from tuner.vision.datasets.cifar10 import OFFICIAL


class FakeRay(SimpleNamespace):
    """Remembers what it was asked; a daemon of its own outlives its shutdown."""

    def __init__(self, *, connected=False, error=None):
        self.calls = []
        self.connected = connected
        self.error = error

    def init(self, **options):
        self.calls.append(("init", options))
        if self.error:
            raise self.error
        code = "import time; time.sleep(600)"
        self.daemon = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.DEVNULL
        )

    def shutdown(self):
        self.calls.append(("shutdown", Path(cluster.find_scratch_folder()).is_dir()))

    def is_initialized(self):
        return self.connected

    @property
    def names(self):
        return [name for name, *_ in self.calls]


@pytest.fixture
def play(monkeypatch):
    """Puts a fake Ray in place."""
    monkeypatch.delenv(guard.MARK, raising=False)  # of the integration tests' own Ray
    for name, value in ray_compat.SETTINGS.items():
        monkeypatch.setenv(name, value)  # so that they are as before afterwards
    fakes = []

    def put(**options):
        fakes.append(FakeRay(**options))
        for name in ("init", "shutdown", "is_initialized"):
            monkeypatch.setattr(ray, name, getattr(fakes[-1], name))
        return fakes[-1]

    yield put
    for fake in fakes:
        if daemon := getattr(fake, "daemon", None):
            daemon.kill()
            daemon.wait()


def test_connect_starts_and_ends_a_local_ray(play, monkeypatch):
    fake = play()
    monkeypatch.delenv(access.AUTH_MODE, raising=False)
    before = dict(os.environ)
    with cluster.connect():
        [(_, options)] = fake.calls
        assert options["address"] == "local"
        assert options["num_cpus"] == quotas.count_usable_cpus()
        assert options["include_dashboard"] is False
        assert len(options["_temp_dir"]) < 30  # a socket's path has at most 107 bytes
        folder = Path(cluster.find_scratch_folder())
        assert options["_temp_dir"] == f"{folder}/ray"
        assert folder.stat().st_mode & 0o777 == 0o700
        assert os.environ[access.TOKEN_PATH].startswith(f"{folder}/")
        assert os.environ[access.AUTH_MODE] == "token"
        # For a moment a new process shows no environment
        deadline = time.monotonic() + 10
        while not (marked := guard.find_marked(os.environ[guard.MARK], str(folder))):
            assert time.monotonic() < deadline
        assert marked == [fake.daemon.pid]
    assert fake.calls[1:] == [("shutdown", True)]
    assert fake.daemon.wait(10) < 0  # what a shutdown leaves behind is ended
    assert not folder.exists()
    assert os.environ == before


def test_connect_uses_an_existing_connection(play):
    fake = play(connected=True)
    with cluster.connect("auto"):
        assert fake.calls == []
    assert fake.calls == []
    assert cluster.is_connected()


def test_connect_names_why_ray_did_not_start(snapshot, play):
    fake = play(error=RuntimeError("no space"))
    with snapshot.raises(ExperimentError):  # noqa: SIM117
        with cluster.connect():
            pass
    assert fake.names == ["init", "shutdown"]


FIELDS = {"name": "x", "search": {"space": {"x": "uniform(0, 1)"}}, "num_samples": 1}


class Played(cluster.Cluster):
    """A cluster of nodes with these CPUs and GPUs, whose tasks run here."""

    def __init__(self, *offers, joined=True, driver="1", autoscales=False):
        self.offers = list(offers)
        self.joined = joined
        self.on = driver
        self.grows = autoscales
        self.calls = []
        self.started = []

    def is_joined(self):
        return self.joined

    def nodes(self):
        return [Node(str(n), str(n), *offer) for n, offer in enumerate(self.offers)]

    def find_driver(self):
        return self.on

    def can_autoscale(self, nodes):
        return self.grows

    def requested(self, resources):
        return nullcontext()

    def run(self, nodes, function, *arguments, limit_s=0):
        self.calls.append((function.__name__, [node.node_id for node in nodes]))
        return [Reply(node, function(*arguments)) for node in nodes]

    def start(self, node, function):
        return SimpleNamespace(
            remote=lambda *arguments: self.started.append((node, *arguments))
        )


def test_slots_waits_for_the_local_node_and_refuses_what_never_fits(snapshot):
    class Starting(Played):
        def nodes(self):
            self.offers = next(self.polls)
            return super().nodes()

    starting = Starting(joined=False)
    starting.polls = iter([[], [(0.0,)], [(2.0,)]])
    assert starting.count_slots(Resources()) == 2
    with snapshot.raises(UsageError):
        Played((8,)).count_slots(Resources(cpus=1, gpus=1))


@pytest.mark.parametrize("joined", [True, False])
def test_admit_checks_nodes_before_creating_a_folder(snapshot, tmp_path, joined):
    played = Played((4,), (0,), joined=joined)
    fields = {**FIELDS, "storage": str(tmp_path / "shared"), "trainable": "mine:Mine"}
    if not joined:
        played.admit(build_spec(fields))
        assert played.calls == []
        return
    with snapshot.raises(UsageError):
        played.admit(build_spec(fields))
    assert played.calls == [("check_node", ["0"])]
    assert list(tmp_path.iterdir()) == []


def cifar10(folder):
    fields = {
        "name": "x",
        "search": {"space": {"lr": "uniform(0.1, 1)"}},
        "num_samples": 1,
    }
    training = {"dataset": "cifar10", "data_dir": str(folder)}
    return build_spec({**fields, "training": training, "storage": str(folder)})


def test_room_sends_the_data_set_to_new_nodes(tmp_path):
    played = Played((4,))
    room = played.track_room(cifar10(tmp_path))
    assert room() == 4
    played.offers.append((2,))
    room.poll_s = 0
    assert room() == 6
    calls = [
        (node.node_id, data.archive, method)
        for node, data, method, *_ in played.started
    ]
    assert calls == [("0", OFFICIAL, "load"), ("1", OFFICIAL, "receive")]


class Growing(Played):
    """A cluster that offers more at each poll."""

    def __init__(self, *polls, **options):
        super().__init__(**options)
        self.polls = list(polls)

    def nodes(self):
        self.offers = self.polls.pop(0) if len(self.polls) > 1 else self.polls[0]
        return super().nodes()


LARGE = Resources(cpus=4)


def test_await_room_waits_only_for_a_cluster_that_autoscales(snapshot, capsys):
    Growing([(8,)]).wait_for_room(LARGE, None)
    Growing([(2,)], joined=False).wait_for_room(LARGE, None)  # `count_slots` refuses it
    assert capsys.readouterr().err == ""
    with snapshot.raises(UsageError):
        Growing([(2,)]).wait_for_room(LARGE, None)
    growing = Growing([(2,)], [(2,)], [(2,), (8,)], autoscales=True)
    growing.wait_for_room(LARGE, None, poll_s=0.01)
    assert "waiting up to 10m 00s: the cluster autoscales" in capsys.readouterr().err


@pytest.mark.parametrize("grows", [True, False])
def test_await_room_raises_after_its_patience(snapshot, grows):
    with snapshot.raises(UsageError):
        Growing([(2,)], autoscales=grows).wait_for_room(LARGE, 0.05, poll_s=0.01)


def test_plan_counts_trials_or_refuses(snapshot):
    played = Played((4,), joined=False)
    assert played.describe_plan(build_spec(FIELDS))["at_once"] == 4
    large = build_spec({**FIELDS, "resources": {"cpus": 5}})
    with snapshot.raises(UsageError):
        played.describe_plan(large)
    assert (
        Played((4,), joined=False, autoscales=True).describe_plan(large)["at_once"] == 0
    )


@pytest.fixture
def directory(tmp_path, monkeypatch):
    folder = tmp_path / "mine"
    (folder / "results/x").mkdir(parents=True)
    (folder / "mine.py").write_text("x = 1\n")
    for name in (ray_compat.IN_A_JOB, *ray_compat.FOR_WORKERS):
        monkeypatch.delenv(name, raising=False)
    return folder


def env_of(directory, *, code=True, storage=None):
    return cluster.build_runtime_env(
        directory, storage or directory / "results", code=code
    )


def test_runtime_env_sends_the_folder_without_the_results(directory):
    sent = env_of(directory)
    assert sent["working_dir"] == str(directory)
    assert sent["excludes"] == ["/results/"]
    for storage in (directory, directory.parent / "elsewhere"):
        assert env_of(directory, storage=storage)["excludes"] == []


def test_runtime_env_of_shipped_code_or_job_sends_nothing(directory, monkeypatch):
    assert "working_dir" not in env_of(directory, code=False)
    monkeypatch.setenv(ray_compat.IN_A_JOB, "{}")
    assert "working_dir" not in env_of(directory)


def test_runtime_env_has_module_folders_and_worker_settings(directory, monkeypatch):
    (directory / "spaces").mkdir()
    monkeypatch.setattr(
        sys, "path", [str(directory), str(directory / "spaces"), "/elsewhere"]
    )
    assert env_of(directory)["env_vars"] == {"PYTHONPATH": "spaces"}
    monkeypatch.setenv("RAY_CHDIR_TO_TRIAL_DIR", "0")
    assert env_of(directory, code=False) == {
        "env_vars": {"RAY_CHDIR_TO_TRIAL_DIR": "0"}
    }
