"""Texts that tests compare with files."""

from types import SimpleNamespace

import pytest
import snapshots
from snapshots import Snapshot

from tuner.errors import UsageError


@pytest.fixture
def start(tmp_path, monkeypatch):
    """A function that starts a test with its snapshot: start(rewrites)."""
    monkeypatch.setattr(snapshots, "TESTS", tmp_path)

    def start(rewrites=False, name="test_it"):
        option = SimpleNamespace(rewrite_snapshots=rewrites)
        path = tmp_path / "room/test_module.py"
        node = SimpleNamespace(
            nodeid=f"{path}::{name}", path=path, funcargs={"tmp_path": "/a.b"}
        )
        return Snapshot(
            SimpleNamespace(node=node, config=SimpleNamespace(option=option))
        )

    return start


def test_snapshot_fails_with_the_difference(start, tmp_path):
    start(rewrites=True)("left")
    for name in ("test_z", "test_it"):
        written = start(rewrites=True, name=name)
        written("one\n\n  two \n")
        written("None of /a.b by pid 7 on me, since 2026-11-27 20:00:00")
    assert (tmp_path / "snapshots/room/test_module.txt").read_text() == "\n".join(
        f"=== {name}\none\n\n  two\n-----\nNone of TMP by pid N on HOST, since TIME\n"
        for name in ("test_it", "test_z")
    )
    snapshot = start()
    snapshot("one\n\n  two")
    with pytest.raises(
        pytest.fail.Exception, match=r"-None of TMP by.*\n\+None of TMP, by"
    ):
        snapshot("None of /a.b, by pid 8 on you, since 2026-11-28 20:00:00")
    with pytest.raises(pytest.fail.Exception, match=r"\+\{'a': 1"):
        snapshot.compare_value({"a": 1})
    for longer in (snapshot, start(name="test_new")):  # a text more, a test more
        with pytest.raises(pytest.fail.Exception, match=r"\+one"):
            longer("one")


def test_raises_compares_the_message(start):
    with start(rewrites=True).raises(UsageError):
        raise UsageError("no")
    with (
        pytest.raises(pytest.fail.Exception, match=r"-no\n\+yes"),
        start().raises(UsageError),
    ):
        raise UsageError("yes")
