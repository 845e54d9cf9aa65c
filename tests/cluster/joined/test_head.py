"""Who may be asked, what its answers mean, and when it is lost; integration/ has real heads."""

import re
import socket
import threading
from contextlib import contextmanager, nullcontext

import pytest

from tuner import ray_compat
from tuner.cluster.joined import head
from tuner.cluster.joined.head import Heartbeat
from tuner.errors import UsageError

OURS = {"ray_version": "2.60.0", "python_version": "3.11.7"}


@contextmanager
def server(answer):
    """A server that sends `answer` to whoever has said something; its HOST:PORT."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            connection, _ = listening.accept()
            with connection:
                connection.recv(100)
                connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        thread.join()


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("ray://head:10001", "cannot run over Ray Client"),
        ("http://head:8265", "`.* submit`"),
        ("head", "takes local, auto or HOST:PORT, got 'head'"),
        ("head:x", "HOST:PORT"),
        ("head:70000", "HOST:PORT"),
        (":6379", "HOST:PORT"),
    ],
)
def test_what_is_no_heads_address_is_refused(address, told):
    with pytest.raises(UsageError, match=told):
        head.head_at(address)


def test_an_address_is_taken_as_it_is():
    assert head.head_at("head:6379") == "head:6379"


@pytest.mark.parametrize(
    ("said", "told"), [("multiple", "several Ray"), ("none", "no Ray cluster")]
)
def test_auto_without_one_cluster_is_told(monkeypatch, said, told):
    def refuse():
        raise ConnectionError(said)

    monkeypatch.setattr(ray_compat, "this_machines_cluster", refuse)
    with pytest.raises(UsageError, match=f"{told}.* give --address HOST:PORT"):
        head.head_at("auto")


def test_auto_is_the_cluster_that_ray_knows(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert head.head_at("auto") == "10.0.0.1:6379"


def test_another_servers_answer_is_told():
    with server(b"HTTP/1.1 400 Bad Request\r\n\r\n") as address:  # noqa: SIM117
        with pytest.raises(UsageError, match=f"{address} is no Ray head: .*8265 is its dashboard"):
            head.check_head(address)


@pytest.mark.parametrize("is_node", [True, False])
def test_check_head_refuses_a_machine_that_is_no_node(monkeypatch, is_node):
    monkeypatch.setattr(ray_compat, "cluster_metadata", lambda head, limit_s: b"")
    monkeypatch.setattr(ray_compat, "has_node_here", lambda head, limit_s: is_node)
    refused = nullcontext() if is_node else pytest.raises(UsageError, match="ray start --address")
    with server(bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])) as address, refused:
        head.check_head(address)


def test_a_machine_that_is_not_known_or_does_not_answer_is_told(monkeypatch):
    with pytest.raises(UsageError, match=r"known as 'nowhere\.invalid': .*IP address"):
        head.check_head("nowhere.invalid:6379")

    def late(*arguments):
        raise TimeoutError

    monkeypatch.setattr(head.socket, "create_connection", late)
    with pytest.raises(UsageError, match=r"cannot be reached \(no answer in 10 s\): .*firewall"):
        head.check_head("10.0.0.1:6379")


@pytest.mark.parametrize(
    ("theirs", "told"),
    [
        ({"ray_version": "2.9.0", "python_version": "3.9.1"}, r"Ray 2\.9\.0, .*ray\[tune\]==2\.9"),
        ({"ray_version": "2.60.0", "python_version": "3.11.8"}, r"Python 3\.11\.8, and here is"),
        ({"ray_version": "2.60.0", "python_version": "3.12.7"}, r"make an environment"),
    ],
)
def test_another_version_is_told_with_what_to_do(theirs, told):
    fault = head.version_problem("head:1", theirs, OURS)
    assert fault is not None
    assert re.search(told, fault)


def test_equal_versions_and_untold_ones_are_no_fault(monkeypatch):
    assert head.version_problem("head:1", OURS, OURS) is None
    assert head.version_problem("head:1", {}, OURS) is None
    monkeypatch.setenv("RAY_DEFAULT_PYTHON_VERSION_MATCH_LEVEL", "minor")
    patch = {**OURS, "python_version": "3.11.8"}
    assert head.version_problem("head:1", patch, OURS) is None


def test_our_versions_are_rays_and_pythons():
    import platform

    import ray

    assert head.versions() == {
        "ray_version": ray.__version__,
        "python_version": platform.python_version(),
    }


REFUSED, SILENT = ConnectionRefusedError(), TimeoutError()


def test_a_head_whose_machine_refuses_is_lost_soon():
    heartbeat = Heartbeat()
    assert [heartbeat.is_lost(REFUSED, now) for now in (0, 9, 10)] == [False, False, True]


def test_a_network_may_come_back():
    heartbeat = Heartbeat()
    assert [heartbeat.is_lost(SILENT, now) for now in (0, 20, 44)] == [False] * 3
    assert not heartbeat.is_lost(None, 44.5)
    assert [heartbeat.is_lost(SILENT, now) for now in (45, 89, 90)] == [False, False, True]


def test_the_loss_is_told_once():
    lost = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert head.error_of(address) is None
    heartbeat = Heartbeat(refused_s=0.05)
    head.watch(address, heartbeat, lambda: lost.append(1), threading.Event(), poll_s=0.01)
    assert lost == [1]
