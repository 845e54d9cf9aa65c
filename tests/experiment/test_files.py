"""Only plain files are opened: links, pipes and devices are neither followed nor waited for."""

import os
import shutil
import socket
from contextlib import chdir

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import Writer, make_folder

from tuner.errors import CheckpointError, JournalError, UsageError
from tuner.experiment.files import (
    EXPERIMENT,
    JOURNAL,
    LARGEST,
    compute_sha256,
    create_file,
    open_plain,
    read_json,
    read_object,
    read_plain,
    replace_file,
    resolve_path,
    write_file,
)
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.journal import Journal, is_locked
from tuner.experiment.reading import Tail, read
from tuner.experiment.results.described import Described
from tuner.experiment.results.measured_tests import record_test
from tuner.experiment.results.results import Results
from tuner.experiment.results.upkeep import rename_experiment
from tuner.experiment.trials import CheckpointRecord


@pytest.fixture
def folder(tmp_path):
    writer = Writer(make_folder(tmp_path / "x"))
    writer.trial(1, [0.5], end=None)
    writer.checkpoint("00001", 1)
    writer.kill()
    return writer.folder


def link(path):
    target = path.parents[1] / "target"
    target.write_text("other")
    path.symlink_to(target)


def sock(path):
    with chdir(path.parent), socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path.name)  # a whole path may be too long for a socket


def device(path):
    path.symlink_to("/dev/zero")


ODD = (link, os.mkfifo, device, sock, os.mkdir)


@pytest.mark.parametrize("make", ODD)
def test_open_plain_refuses_other_files(tmp_path, make):
    path = tmp_path / "a/b"
    path.parent.mkdir()
    make(path)
    for read_it in (read_plain, open_plain):
        with pytest.raises(
            OSError, match=r"symbolic link|no.* plain file|No such device"
        ):
            read_it(path)


def test_read_plain_refuses_large_files(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"abc")
    assert read_plain(path) == b"abc"
    os.truncate(path, LARGEST + 1)
    with pytest.raises(OSError, match="it has more than 64 MiB"):
        read_plain(path)


@pytest.mark.parametrize("make", ODD[:-1])
@pytest.mark.parametrize("name", [EXPERIMENT, JOURNAL])
def test_readers_refuse_links_and_pipes(snapshot, folder, make, name):
    (folder / name).unlink()
    make(folder / name)
    with snapshot.raises(UsageError, JournalError):
        Results(folder)
    if name == JOURNAL:
        assert not is_locked(folder)
        for read_it in (lambda: list(read(folder)), Tail(folder).read):
            with snapshot.raises(JournalError):
                read_it()


def contents_of(folder):
    """Every name below `folder` with its content, links as they are."""
    return {
        path: os.readlink(path)
        if path.is_symlink()
        else path.is_file() and path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if not path.is_fifo() and not path.is_socket()
    }


TEST = "trials/00001/test.json"


@pytest.mark.parametrize(
    ("name", "write"),
    [
        (JOURNAL, lambda folder: Journal.open(folder.path)),
        (EXPERIMENT, lambda folder: folder.write(EXPERIMENT, {})),
        ("control", lambda folder: folder.create_file("control/1.json", {})),
        *((part, lambda folder: folder.write(TEST, {})) for part in ("trials", TEST)),
        (
            "trials/00001",
            lambda folder: folder.create_folder(folder.path / "trials/00001/files"),
        ),
        ("trials/00001", lambda folder: folder.remove_file("trials/00001/checkpoints")),
    ],
)
@pytest.mark.parametrize("make", ODD[:-1])
def test_writers_refuse_links_and_pipes_on_their_path(
    snapshot, folder, tmp_path, make, name, write
):
    path = folder / name
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    make(path) if make is not link else path.symlink_to(tmp_path)
    before = contents_of(tmp_path)
    with snapshot.raises(UsageError, JournalError, OSError):
        write(ExperimentFolder(folder))
    assert contents_of(tmp_path) == before


@pytest.mark.parametrize(
    "name", ["anything", "trials/00001/x", "trials/00001/files/data"]
)
@pytest.mark.parametrize("make", ODD[:-1])
def test_links_and_pipes_elsewhere_lock_no_experiment(folder, make, name):
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    make(path)
    Journal.open(folder).close()
    record_test(folder, "00001", {})
    experiment = ExperimentFolder(folder)
    experiment.create_file("control/1.json", {})
    experiment.remove_file("trials/00001/checkpoints")
    assert experiment.list_sizes()
    described = rename_experiment(Described(folder), "y")
    assert described.name == "y"
    assert os.path.lexists(described.files.path / name)
    described.files.remove(warn=print)


def write_text(text):
    return lambda partial: partial.write_text(text)


def test_replace_file_is_atomic(tmp_path):
    path = tmp_path / "a"

    def break_off(partial):
        partial.write_text("half")
        raise OSError(28, "No space left on device")

    for write in (replace_file, write_file):
        write(path, write_text("whole"))
        with pytest.raises((OSError, UsageError), match="No space left on device"):
            write(path, break_off)
        assert path.read_text() == "whole"
        assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("content", [b"\xff", b"{", b"", b"9" * 10_000])
def test_read_json_invalid_text_is_refused(snapshot, tmp_path, content):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="not JSON"):
        read_json(path)
    with snapshot.raises(UsageError):
        read_object(path)


@pytest.mark.parametrize(
    "kind", ["link", "dangling link", "device's stand-in", "folder"]
)
def test_write_file_replaces_only_plain_files(snapshot, tmp_path, kind):
    path = tmp_path / "x.html"
    target = tmp_path / "target"
    if kind == "folder":
        path.mkdir()
    elif kind == "device's stand-in":
        os.mkfifo(path)
    else:
        path.symlink_to(target)
    if kind == "link":
        target.write_text("kept")
    before = path.lstat()
    with snapshot.raises(UsageError):
        write_file(path, lambda partial: partial.write_text("new"))
    assert path.lstat() == before
    assert kind != "link" or target.read_text() == "kept"
    assert set(tmp_path.iterdir()) <= {path, target}


def test_checkpoint_refuses_altered_files(snapshot, tmp_path):
    path = tmp_path / "state.pt"
    path.write_bytes(b"weights")
    record = CheckpointRecord(3, "state.pt", compute_sha256(path))
    checkpoint = ExperimentFolder(tmp_path).fetch_checkpoint(record, "00001")
    assert (checkpoint.path, checkpoint.epoch) == (path, 3)
    path.write_bytes(b"other")
    with snapshot.raises(CheckpointError):
        ExperimentFolder(tmp_path).fetch_checkpoint(record, "00001")
    path.unlink()
    with snapshot.raises(CheckpointError):
        ExperimentFolder(tmp_path).fetch_checkpoint(record, "00001")


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "..", "trials/../../x", ".", "out/x", "a\0b", "\ud800"]
)
def test_inside_refuses_paths_that_lead_out(snapshot, tmp_path, name):
    folder = tmp_path / "experiment"
    (folder / "trials").mkdir(parents=True)
    (folder / "out").symlink_to(tmp_path)
    with snapshot.raises(CheckpointError):
        resolve_path(folder, name)


@given(name=st.text(min_size=1))
def test_inside_result_is_below_the_folder(tmp_path_factory, name):
    folder = tmp_path_factory.getbasetemp()
    try:
        path = resolve_path(folder, name)
    except CheckpointError:
        return
    assert path.resolve().is_relative_to(folder.resolve())


FILES = {"a": b"1", "sub/b": b"2", "sub/deep/c": b""}


def lay(folder, files):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


@pytest.mark.parametrize(
    "changed",
    [
        {"a": b"1", "sub/b": b"3", "sub/deep/c": b""},
        {"a": b"1", "sub/B": b"2", "sub/deep/c": b""},
        {"a": b"1", "b": b"2", "sub/deep/c": b""},
        {"a": b"1", "sub/b": b"2"},
        {**FILES, "d": b""},
    ],
)
def test_sha256_of_a_folder_changes_with_its_files(tmp_path, changed):
    assert compute_sha256(lay(tmp_path / "x", FILES)) != compute_sha256(
        lay(tmp_path / "y", changed)
    )


@pytest.mark.parametrize("target", ["/etc/hostname", "nowhere", "."])
def test_sha256_of_links_is_refused(snapshot, tmp_path, target):
    lay(tmp_path, FILES)
    (tmp_path / "link").symlink_to(target)
    for path in (tmp_path / "link", tmp_path):
        with snapshot.raises(CheckpointError):
            compute_sha256(path)


def test_sha256_of_a_pipe_is_refused(snapshot, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with snapshot.raises(CheckpointError):
        compute_sha256(tmp_path)


def test_create_file_succeeds_if_the_answer_to_a_link_is_lost(tmp_path, monkeypatch):
    def link_twice(source, target, link=os.link):
        link(source, target)
        link(source, target)  # as a client of NFS does that got no answer

    monkeypatch.setattr(os, "link", link_twice)
    create_file(tmp_path / "a.json", b"1")
    assert (tmp_path / "a.json").read_bytes() == b"1"
    with pytest.raises(FileExistsError):
        create_file(tmp_path / "a.json", b"1")
