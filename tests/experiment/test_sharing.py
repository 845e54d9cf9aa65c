"""A machine shares a storage if it finds the driver's marker there and can write beside it."""

import os
from pathlib import Path
from uuid import uuid4

import pytest

from tuner.errors import UsageError
from tuner.experiment.remote.objects import Objects
from tuner.experiment.sharing import (
    MISSING,
    NOT_WRITABLE,
    marker_in,
    round_trips_ms,
    why_not_shared,
)


def test_a_machine_that_sees_the_marker_answers_beside_it(tmp_path):
    with marker_in(tmp_path / "yet" / "to be made") as token:
        assert os.path.dirname(token) == str(tmp_path)
        assert why_not_shared(token) == ""
        assert len(os.listdir(token)) == 2
    assert why_not_shared(token) == MISSING


def test_a_token_of_another_driver_is_none(tmp_path):
    with marker_in(tmp_path) as token:
        Path(token, "driver").write_text("another")
        assert why_not_shared(token) == MISSING


def test_a_storage_that_cannot_be_written_there_is_told(tmp_path, monkeypatch):
    def refuse(path, data):
        raise OSError(30, "Read-only file system")

    with marker_in(tmp_path) as token:
        monkeypatch.setattr(Path, "write_bytes", refuse)
        assert why_not_shared(token) == f"{NOT_WRITABLE}: Read-only file system"


def test_a_storage_that_cannot_be_written_here_is_told(tmp_path):
    (tmp_path / "file").touch()
    token = marker_in(tmp_path / "file")
    with pytest.raises(UsageError, match=f"cannot write to {tmp_path / 'file'}: Not a dir"), token:
        pass
    assert os.listdir(tmp_path) == ["file"]


def test_a_node_answers_in_an_object_store():
    url = f"memory://{uuid4().hex}/runs"
    with marker_in(url) as token:
        assert token.startswith(f"{url}/.tuner-shared-")
        assert why_not_shared(token) == ""
        assert len(Objects(token).names()) == 2
        Objects(token).write("driver", b"another")
        assert why_not_shared(token) == MISSING
    assert Objects(url).names() == []
    assert why_not_shared(token).startswith(f"{MISSING}: ")


def test_a_store_that_a_node_cannot_use_is_told(monkeypatch):
    url = f"memory://{uuid4().hex}/runs"
    with marker_in(url) as token:
        monkeypatch.setattr(Objects, "write", refuse)
        assert why_not_shared(token) == f"{NOT_WRITABLE}: Access Denied"
        with pytest.raises(UsageError, match=f"cannot write to {url}: Access Denied"):
            marker_in(url).__enter__()

    assert why_not_shared("zz://b/x").startswith("no storage 'zz://b/x':")


def refuse(self, name, data):
    raise PermissionError(0, "Access Denied")


def test_round_trips_leave_nothing_behind():
    url = f"memory://{uuid4().hex}/runs"
    assert len(round_trips_ms(url, 3)) == 3
    assert Objects(url).names() == []
