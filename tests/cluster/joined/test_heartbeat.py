"""When a head counts as lost."""

import socket
import threading

from tuner.cluster.joined import heartbeat
from tuner.cluster.joined.heartbeat import Missing

REFUSED, SILENT = ConnectionRefusedError(), TimeoutError()


def test_a_head_whose_machine_refuses_is_lost_soon():
    missing = Missing()
    assert [missing.is_lost(REFUSED, now) for now in (0, 9, 10)] == [False, False, True]


def test_a_network_may_come_back():
    missing = Missing()
    assert [missing.is_lost(SILENT, now) for now in (0, 20, 44)] == [False] * 3
    assert not missing.is_lost(None, 44.5)
    assert [missing.is_lost(SILENT, now) for now in (45, 89, 90)] == [False, False, True]


def test_the_loss_is_told_once(monkeypatch):
    monkeypatch.setattr(heartbeat, "_LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(heartbeat, "_REFUSED_S", 0.05)
    lost = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        head = f"127.0.0.1:{server.getsockname()[1]}"
        assert heartbeat._error_of(head) is None
    heartbeat._watch(head, lambda: lost.append(head), threading.Event())
    assert lost == [head]
