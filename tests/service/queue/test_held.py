"""The leases of a runner: renewed while it lives, and let go where another has taken over."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tuner.errors import StorageError
from tuner.experiment.remote.lease import Lease, Watch, follow, newest
from tuner.experiment.remote.objects import FolderObjects
from tuner.service.queue.held import Held


def lease_in(folder: Path) -> Lease:
    lease = Watch(FolderObjects(folder)).followed()
    assert lease is not None
    return lease


def search(name: str, lease: Lease) -> Any:
    return SimpleNamespace(entry=SimpleNamespace(name=name), lease=lease)


def taken_over(lease: Lease) -> None:
    follow(lease.objects, newest(lease.objects))


def test_what_another_runner_has_taken_over_is_let_go(tmp_path: Path) -> None:
    held, place = Held(), lease_in(tmp_path / "place")
    one, two = (search(name, lease_in(tmp_path / name)) for name in ("one", "two"))
    held.keep(one)
    held.keep(two)
    held.renew(place)
    assert (held.searches, held.is_followed) == ([one, two], False)
    taken_over(one.lease)
    held.renew(place)
    assert (held.searches, held.is_followed) == ([two], False)
    assert "one" not in held
    assert "two" in held
    taken_over(place)
    held.renew(place)
    assert held.is_followed
    held.let_go(two)
    held.let_go(two)  # the thread may have been faster
    assert held.searches == []


def test_a_storage_that_fails_loses_nothing_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    held, place = Held(), lease_in(tmp_path)
    held.keep(one := search("one", lease_in(tmp_path / "one")))

    def failing(*arguments: object) -> None:
        raise OSError(5, "no answer")

    monkeypatch.setattr(FolderObjects, "write", failing)
    with caplog.at_level(logging.WARNING):
        held.renew(place)
    assert (held.searches, held.is_followed) == ([one], False)
    assert caplog.messages == [f"{tmp_path}: no answer", f"{tmp_path / 'one'}: no answer"]


def test_a_place_is_given_back(tmp_path: Path) -> None:
    for _ in range(2):
        with Held().alone(Watch(FolderObjects(tmp_path)), every_s=0, tell=pytest.fail):
            assert not Watch(FolderObjects(tmp_path)).is_free()


def test_a_place_in_a_storage_that_fails_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    watch = Watch(FolderObjects(tmp_path / "file"))
    with (
        pytest.raises(StorageError, match=r"^cannot use the queue: "),
        Held().alone(watch, every_s=0, tell=pytest.fail),
    ):
        pass
