"""Connecting to Ray, with Ray itself played; real ones are started in integration/."""

import os
import shutil
import sys
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import ray._private.ray_constants  # noqa: F401 - a Ray that is played has no modules
from ray._private.state import state

from tuner.cluster import access
from tuner.cluster import connect as cluster
from tuner.cluster import local_ray as own_ray
from tuner.cluster.joined import datasets as supply
from tuner.cluster.joined.nodes import Node
from tuner.errors import ExperimentError, UsageError
from tuner.spec.experiment import Resources, build_spec


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

    def nodes(self):
        return [
            {"NodeID": str(n), "NodeManagerAddress": str(n), "Alive": True, "Resources": has}
            for n, has in enumerate(self.resources)
        ]


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
        monkeypatch.setattr(state, "get_draining_nodes", dict)
        monkeypatch.delenv(cluster.guard.MARK, raising=False)  # of the integration tests' own Ray
        monkeypatch.setattr(own_ray, "_FOR_THE_DRIVER", ("json",))
        monkeypatch.setattr(cluster, "_silence_daemons", lambda: None)
        monkeypatch.setattr(cluster.access, "_tell_ray", lambda: None)
        monkeypatch.setattr(cluster.head, "ask", lambda head: "10.0.0.9")
        monkeypatch.setattr(cluster.outpost, "is_here", lambda head: True)
        monkeypatch.setattr(cluster.heartbeat, "watched", lambda head: nullcontext())
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
        assert options["runtime_env"] == {}
    assert [name for name, *_ in fake.calls] == ["init", "shutdown"]


def test_a_cluster_that_ray_cannot_join_is_told(play):
    play(error=ConnectionError("refused"))
    with pytest.raises(UsageError, match="cannot join the cluster at head:1: refused"):  # noqa: SIM117
        with cluster.connect("head:1"):
            pass


def test_a_users_code_is_sent_to_a_cluster(play, tmp_path, monkeypatch):
    fake = play()
    monkeypatch.chdir(tmp_path)
    fields = {"name": "x", "search": {"space": {"x": "uniform(0, 1)"}}, "num_samples": 1}
    with cluster.connect("head:1", spec=build_spec({**fields, "trainable": "mine:Mine"})):
        [(_, options)] = fake.calls
        assert options["runtime_env"]["working_dir"] == str(tmp_path)
        assert options["runtime_env"]["excludes"] == ["/results/"]


def test_a_driver_outside_of_the_cluster_gets_a_node_of_its_own(play, monkeypatch):
    fake = play()

    @contextmanager
    def of(head, address, mark, folder):
        assert os.environ[cluster.guard.MARK] == mark
        fake.calls.append((head, address))
        yield

    monkeypatch.setattr(cluster.outpost, "is_here", lambda head: False)
    monkeypatch.setattr(cluster.outpost, "of", of)
    with cluster.connect("head:6379"):
        assert [name for name, *_ in fake.calls] == ["head:6379", "init"]
        assert fake.calls[0] == ("head:6379", "10.0.0.9")
    assert cluster.guard.MARK not in os.environ


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
        ([{"CPU": 3}, {"CPU": 3}], {"cpus": 2}, 2),
    ],
)
def test_slots(play, there, resources, slots):
    play(resources=there if isinstance(there, list) else [there])
    assert cluster.slots(Resources(**resources)) == slots


def test_our_own_ray_may_not_know_of_its_node_at_once(monkeypatch):
    answers = iter([[], [Node("a", "a", 0.0)], [Node("a", "a", 2.0)]])
    monkeypatch.setattr(cluster, "nodes", lambda: next(answers))
    monkeypatch.setattr(cluster, "is_elsewhere", lambda: False)
    assert cluster.slots(Resources()) == 2


def test_what_the_cluster_can_never_hold_is_refused(play):
    play(resources=[{"CPU": 8}])
    with pytest.raises(UsageError, match="1 CPU and 1 GPU, and the cluster has 1 node of 8 CPUs"):
        cluster.slots(Resources(cpus=1, gpus=1))


@pytest.mark.parametrize("elsewhere", [True, False])
def test_the_nodes_of_another_cluster_are_asked_before_there_is_a_folder(
    play, monkeypatch, elsewhere
):
    fake = play(resources=[{"CPU": 4}, {"CPU": 0}], connected=True)
    fake.get_runtime_context = lambda: SimpleNamespace(get_node_id=lambda: "1")
    monkeypatch.setattr(cluster, "is_elsewhere", lambda: elsewhere)
    asked = []
    monkeypatch.setattr(cluster.survey, "refuse_unfit", lambda *told: asked.append(told))
    fields = {"name": "x", "search": {"space": {"x": "uniform(0, 1)"}}, "num_samples": 1}
    storage = {"storage": "shared", "trainable": "mine:Mine"}
    cluster.admit(build_spec({**fields, **storage}))
    if not elsewhere:
        assert asked == []
        return
    [(there, folder, trainable)] = asked
    assert [node.cpus for node in there] == [4]
    assert (folder, trainable) == ("shared", "mine:Mine")


def cifar10():
    fields = {"name": "x", "search": {"space": {"lr": "uniform(0.1, 1)"}}, "num_samples": 1}
    return build_spec({**fields, "training": {"dataset": "cifar10", "data_dir": "/data"}})


@pytest.mark.parametrize(
    ("nodes", "elsewhere", "brought"),
    [
        ([{"CPU": 4}, {"CPU": 0}], True, 1),
        ([{"CPU": 0}, {"CPU": 4}], True, 0),  # all that trains is here
        ([{"CPU": 4}, {"CPU": 4}], False, 0),
    ],
)
def test_the_nodes_of_another_cluster_get_the_data_set(
    play, monkeypatch, capsys, nodes, elsewhere, brought
):
    fake = play(resources=nodes, connected=True)
    fake.get_runtime_context = lambda: SimpleNamespace(get_node_id=lambda: "1")
    monkeypatch.setattr(cluster, "is_elsewhere", lambda: elsewhere)
    monkeypatch.setattr(cluster.survey, "refuse_unfit", lambda *told: None)
    asked = []

    def bring(there, need, *, here, say):
        asked.append((len(there), need.archive.title, need.data_dir, here))
        say("copied")

    monkeypatch.setattr(supply, "bring", bring)
    cluster.admit(cifar10())
    assert asked == [(2, "CIFAR-10", "/data", "1")] * brought
    assert capsys.readouterr().err == "copied\n" * brought


def test_nodes_that_join_get_the_data_set_too(play, monkeypatch):
    fake = play(resources=[{"CPU": 4}], connected=True)
    monkeypatch.setattr(cluster.growth, "autoscales", lambda there: False)
    monkeypatch.setattr(cluster.growth, "_LOOK_EVERY_S", 0)
    greeted = []
    monkeypatch.setattr(supply, "greet", lambda *told: greeted.append(told))
    room = cluster.room(cifar10())
    assert room() == 4
    fake.resources.append({"CPU": 2})
    assert room() == 6
    [(new, others, need)] = greeted
    assert [node.node_id for node in new] == ["1"]
    assert [node.node_id for node in others] == ["0"]
    assert need.archive.title == "CIFAR-10"


def test_a_plan_says_what_the_cluster_holds_unless_it_is_too_small(play, monkeypatch):
    play(resources=[{"CPU": 4}], connected=True)
    monkeypatch.setattr(cluster, "is_elsewhere", lambda: False)
    monkeypatch.setattr(cluster.growth, "autoscales", lambda there: False)
    fields = {"name": "x", "search": {"space": {"x": "uniform(0, 1)"}}, "num_samples": 1}
    assert cluster.plan_there(build_spec(fields))["at_once"] == 4
    large = build_spec({**fields, "resources": {"cpus": 5}})
    with pytest.raises(UsageError, match="reserves 5 CPUs"):
        cluster.plan_there(large)
    monkeypatch.setattr(cluster.growth, "autoscales", lambda there: True)
    assert cluster.plan_there(large)["at_once"] == 0


def test_a_trial_whose_node_is_taken_back_is_ours_to_try_again_not_tunes(monkeypatch):
    from ray.exceptions import RayActorError
    from ray.tune.experiment import Trial

    for name in cluster._ENVIRONMENT:
        monkeypatch.setenv(name, "0")  # so that it is as before afterwards
        monkeypatch.delenv(name)
    cluster.prepare_environment()
    trial = Trial("x", stub=True)
    trial._handle_ray_actor_error(RayActorError(preempted=True))
    assert not trial.should_recover()
