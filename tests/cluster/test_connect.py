"""Connecting to Ray, with Ray itself played; real ones are started in integration/."""

import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import ray

from tuner import ray_compat
from tuner.cluster import access
from tuner.cluster import connect as cluster
from tuner.cluster.joined.nodes import Node, Reply
from tuner.errors import ExperimentError, UsageError
from tuner.spec import quotas
from tuner.spec.experiment import build_spec
from tuner.spec.sections import Resources
from tuner.trial import guard
from tuner.vision.datasets.cifar10 import OFFICIAL

GRPC = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # the first frame of a head


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
        self.daemon = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.DEVNULL)

    def shutdown(self):
        self.calls.append(("shutdown", Path(cluster.scratch_folder()).is_dir()))

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


def test_a_local_ray_is_started_with_our_cpus_and_ended(play, monkeypatch):
    fake = play()
    monkeypatch.delenv(access.AUTH_MODE, raising=False)
    before = dict(os.environ)
    with cluster.connect():
        [(_, options)] = fake.calls
        assert options["address"] == "local"
        assert options["num_cpus"] == quotas.usable_cpus()
        assert options["include_dashboard"] is False
        assert len(options["_temp_dir"]) < 30  # a socket's path has at most 107 bytes
        folder = Path(cluster.scratch_folder())
        assert options["_temp_dir"] == f"{folder}/ray"
        assert folder.stat().st_mode & 0o777 == 0o700
        assert os.environ[access.TOKEN_PATH].startswith(f"{folder}/")
        assert os.environ[access.AUTH_MODE] == "token"
        deadline = time.monotonic() + 10  # for a moment a new process shows no environment
        while not (marked := guard.marked(os.environ[guard.MARK], str(folder))):
            assert time.monotonic() < deadline
        assert marked == [fake.daemon.pid]
    assert fake.calls[1:] == [("shutdown", True)]
    assert fake.daemon.wait(10) < 0  # what a shutdown leaves behind is ended
    assert not folder.exists()
    assert os.environ == before


def test_a_connection_that_is_there_is_used_and_left(play):
    fake = play(connected=True)
    with cluster.connect("auto"):
        assert fake.calls == []
    assert fake.calls == []
    assert cluster.is_connected()


def test_a_local_ray_that_does_not_start_is_told(play):
    fake = play(error=RuntimeError("no space"))
    with pytest.raises(ExperimentError, match="Ray did not start on this machine: no space"):  # noqa: SIM117
        with cluster.connect():
            pass
    assert fake.names == ["init", "shutdown"]


@pytest.fixture
def head(monkeypatch):
    """HOST:PORT of what answers as a head does, as far as it is asked here."""
    monkeypatch.setattr(ray_compat, "cluster_metadata", lambda head, limit_s: b"")
    monkeypatch.setattr(ray_compat, "has_node_here", lambda head, limit_s: True)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(100)
                    connection.sendall(GRPC)

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_another_cluster_is_joined_and_left(play, head):
    fake = play()
    with cluster.connect(head):
        [(_, options)] = fake.calls
        assert options["address"] == head
        assert "num_cpus" not in options
        assert options["runtime_env"] == {}
    assert fake.names == ["init", "shutdown"]


def test_a_cluster_that_ray_cannot_join_is_told(play, head):
    play(error=ConnectionError("refused"))
    with pytest.raises(UsageError, match=f"cannot join the cluster at {head}: refused"):  # noqa: SIM117
        with cluster.connect(head):
            pass


FIELDS = {"name": "x", "search": {"space": {"x": "uniform(0, 1)"}}, "num_samples": 1}


def test_a_users_code_is_sent_to_a_cluster(play, head, tmp_path, monkeypatch):
    fake = play()
    monkeypatch.chdir(tmp_path)
    with cluster.connect(head, spec=build_spec({**FIELDS, "trainable": "mine:Mine"})):
        [(_, options)] = fake.calls
        assert options["runtime_env"]["working_dir"] == str(tmp_path)
        assert options["runtime_env"]["excludes"] == ["/results/"]


class Played(cluster.Cluster):
    """A cluster of nodes with these CPUs and GPUs, whose tasks run here."""

    def __init__(self, *offers, joined=True, driver="1", autoscales=False):
        self.offers = list(offers)
        self.joined = joined
        self.on = driver
        self.grows = autoscales
        self.asked = []

    def is_joined(self):
        return self.joined

    def nodes(self):
        return [Node(str(n), str(n), *offer) for n, offer in enumerate(self.offers)]

    def driver(self):
        return self.on

    def autoscales(self, nodes):
        return self.grows

    def requested(self, resources):
        return nullcontext()

    def run(self, nodes, function, *arguments, limit_s=0):
        self.asked.append((function.__name__, [node.node_id for node in nodes]))
        return [Reply(node, function(*arguments)) for node in nodes]

    def start(self, node, function):
        return SimpleNamespace(remote=lambda *arguments: None)


@pytest.mark.parametrize(
    ("offers", "resources", "slots"),
    [
        ([(4,)], {"cpus": 1}, 4),
        ([(0.3,)], {"cpus": 0.1}, 3),
        ([(8, 2)], {"cpus": 1, "gpus": 0.4}, 4),
        ([(8, 8)], {"cpus": 1, "gpus": 1, "workers": 4}, 2),
        ([(3,), (3,)], {"cpus": 2}, 2),
    ],
)
def test_slots(offers, resources, slots):
    assert Played(*offers).slots(Resources(**resources)) == slots


def test_our_own_ray_may_not_know_of_its_node_at_once():
    class Starting(Played):
        def nodes(self):
            self.offers = next(self.polls)
            return super().nodes()

    starting = Starting(joined=False)
    starting.polls = iter([[], [(0.0,)], [(2.0,)]])
    assert starting.slots(Resources()) == 2


def test_what_the_cluster_can_never_hold_is_refused():
    with pytest.raises(UsageError, match="1 CPU and 1 GPU, and the cluster has 1 node of 8 CPUs"):
        Played((8,)).slots(Resources(cpus=1, gpus=1))


@pytest.mark.parametrize("joined", [True, False])
def test_the_nodes_of_another_cluster_are_asked_before_there_is_a_folder(tmp_path, joined):
    played = Played((4,), (0,), joined=joined)
    fields = {**FIELDS, "storage": str(tmp_path / "shared"), "trainable": "mine:Mine"}
    if not joined:
        played.admit(build_spec(fields))
        assert played.asked == []
        return
    with pytest.raises(UsageError, match="trainable mine:Mine is not found on 1 node, 0"):
        played.admit(build_spec(fields))
    assert played.asked == [("check_node", ["0"])]
    assert list(tmp_path.iterdir()) == []


def cifar10(folder):
    fields = {"name": "x", "search": {"space": {"lr": "uniform(0.1, 1)"}}, "num_samples": 1}
    training = {"dataset": "cifar10", "data_dir": str(folder)}
    return build_spec({**fields, "training": training, "storage": str(folder)})


@pytest.mark.parametrize(
    ("offers", "joined", "brought"),
    [
        ([(4,), (0,)], True, 1),
        ([(0,), (4,)], True, 0),  # all that trains is here
        ([(4,), (4,)], False, 0),
    ],
)
def test_the_nodes_of_another_cluster_get_the_data_set(tmp_path, capsys, offers, joined, brought):
    class WithData(Played):
        """Nodes of which the driver's alone has the archive."""

        def run(self, nodes, function, *arguments, limit_s=0):
            if function.__name__ == "check_node":
                return super().run(nodes, function, *arguments)
            data, method, *_ = arguments
            self.asked.append((method, data))
            states = {"0": (False, True), "1": (True, False)}
            return [Reply(node, states[node.node_id]) for node in nodes]

    played = WithData(*offers, joined=joined)
    played.admit(cifar10(tmp_path))
    asked = [(name, data.archive) for name, data in played.asked if name != "check_node"]
    assert asked == [("state", OFFICIAL), ("receive", OFFICIAL)] * brought
    assert capsys.readouterr().err == "CIFAR-10 is copied from 1 to 1 node that lack it\n" * brought


def test_nodes_that_join_get_the_data_set_too(monkeypatch, tmp_path):
    from tuner.cluster.joined import datasets

    sent = []
    monkeypatch.setattr(datasets, "send_to_new", lambda *asked: sent.append(asked))
    played = Played((4,))
    room = played.room(cifar10(tmp_path))
    assert room() == 4
    played.offers.append((2,))
    room._poll_s = 0
    assert room() == 6
    [(new, others, data)] = sent
    assert [node.node_id for node in new] == ["1"]
    assert [node.node_id for node in others] == ["0"]
    assert data.archive.title == "CIFAR-10"


class Growing(Played):
    """A cluster that offers more at each poll."""

    def __init__(self, *polls, **options):
        super().__init__(**options)
        self.polls = list(polls)

    def nodes(self):
        self.offers = self.polls.pop(0) if len(self.polls) > 1 else self.polls[0]
        return super().nodes()


LARGE = Resources(cpus=4)


def test_await_room_returns_at_once_when_a_trial_fits(capsys):
    Growing([(8,)]).await_room(LARGE, None)
    Growing([(2,)], joined=False).await_room(LARGE, None)  # `slots` refuses it
    assert capsys.readouterr().err == ""


def test_await_room_refuses_at_once_what_never_fits():
    with pytest.raises(UsageError, match=r"reserves 4 CPUs, .* 1 node of 2 CPUs; it does not auto"):
        Growing([(2,)]).await_room(LARGE, None)


def test_await_room_waits_for_a_cluster_that_autoscales(capsys):
    growing = Growing([(2,)], [(2,)], [(2,), (8,)], autoscales=True)
    growing.await_room(LARGE, None, poll_s=0.01)
    assert "waiting up to 10m 00s: the cluster autoscales" in capsys.readouterr().err


@pytest.mark.parametrize("grows", [True, False])
def test_await_room_raises_after_its_patience(grows):
    with pytest.raises(UsageError, match="after 0s still a trial reserves 4 CPUs"):
        Growing([(2,)], autoscales=grows).await_room(LARGE, 0.05, poll_s=0.01)


def test_a_plan_says_what_the_cluster_holds_unless_it_is_too_small():
    played = Played((4,), joined=False)
    assert played.plan(build_spec(FIELDS))["at_once"] == 4
    large = build_spec({**FIELDS, "resources": {"cpus": 5}})
    with pytest.raises(UsageError, match="reserves 5 CPUs"):
        played.plan(large)
    assert Played((4,), joined=False, autoscales=True).plan(large)["at_once"] == 0
