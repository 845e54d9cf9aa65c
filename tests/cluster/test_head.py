"""Who may be asked, what its answers mean, and when it is lost; integration/ has real heads."""

import socket
import threading
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import pytest

from tuner import ray_compat
from tuner.cluster import head
from tuner.errors import UsageError


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
    "address",
    ["ray://head:10001", "http://head:8265", "head", "head:x", "head:70000", ":6379"],
)
def test_head_at_rejects_other_addresses(snapshot, address):
    with snapshot.raises(UsageError):
        head.resolve_head(address)


def test_head_at_auto_without_a_cluster_raises(snapshot, monkeypatch):
    def refuse():
        raise ConnectionError("none")

    monkeypatch.setattr(ray_compat, "find_cluster", refuse)
    with snapshot.raises(UsageError):
        head.resolve_head("auto")


def test_head_at_returns_host_and_port_or_rays_cluster(monkeypatch):
    assert head.resolve_head("head:6379") == "head:6379"
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert head.resolve_head("auto") == "10.0.0.1:6379"


def test_check_head_rejects_another_server(snapshot):
    with server(b"HTTP/1.1 400 Bad Request\r\n\r\n") as address:  # noqa: SIM117
        with snapshot.raises(UsageError):
            head.check_head(address)


@pytest.mark.parametrize("is_node", [True, False])
def test_check_head_rejects_a_machine_that_is_no_node(snapshot, is_node):
    ray = SimpleNamespace(has_node_here=lambda head, limit_s: is_node)
    refused = nullcontext() if is_node else snapshot.raises(UsageError)
    with server(bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])) as address, refused:
        head.check_head(address, ray)


@pytest.mark.parametrize(
    "error", [TimeoutError(), ConnectionRefusedError(), socket.gaierror()]
)
def test_check_head_names_an_unreachable_address(snapshot, monkeypatch, error):
    def fail(*arguments):
        raise error

    monkeypatch.setattr(head.socket, "create_connection", fail)
    with snapshot.raises(UsageError):
        head.check_head("10.0.0.1:6379")


@pytest.mark.parametrize("error", [ConnectionRefusedError(), TimeoutError()])
def test_watch_reports_a_head_that_is_lost_for_long(error):
    answers = [error, None]
    lost = []

    def connect(address, limit_s):
        if answer := answers.pop(0) if answers else error:
            raise answer
        return socket.socket()

    refuses = isinstance(error, ConnectionRefusedError)
    patience = {
        "refused_s": 0.05 if refuses else 900,
        "silent_s": 900 if refuses else 0.05,
    }
    head.watch_head(
        "x:1",
        lambda: lost.append(1),
        threading.Event(),
        poll_s=0.01,
        connect=connect,
        **patience,
    )
    assert (answers, lost) == ([], [1])
