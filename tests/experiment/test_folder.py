import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from synthetic import Writer, make_folder, read_document

from tuner.errors import NameTakenError, UsageError
from tuner.experiment import folder as folder_module
from tuner.experiment.files import EXPERIMENT, JOURNAL
from tuner.experiment.folder import ExperimentFolder


def test_create_refuses_an_existing_name(snapshot, tmp_path):
    folder = ExperimentFolder(tmp_path / "new/digits")
    assert not folder.is_taken
    folder.create({"format": 1})
    assert folder.is_taken
    assert [path.name for path in folder.path.iterdir()] == [EXPERIMENT]
    with snapshot.raises(NameTakenError):
        folder.create({"format": 2})
    assert read_document(folder.path / EXPERIMENT) == {"format": 1}
    with snapshot.raises(UsageError):
        ExperimentFolder(folder.path / EXPERIMENT / "inner").create({})


def test_create_at_once_leaves_one_folder(tmp_path):
    def create(number):
        try:
            ExperimentFolder(tmp_path / "x").create({"by": number}, empty=[JOURNAL])
        except NameTakenError:
            return None
        return number

    with ThreadPoolExecutor(8) as pool:
        won = [number for number in pool.map(create, range(64)) if number is not None]
    assert [read_document(tmp_path / "x" / EXPERIMENT)["by"]] == won
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert (tmp_path / "x" / JOURNAL).read_bytes() == b""


def test_create_removes_what_kills_have_left(tmp_path, monkeypatch):
    left = [tmp_path / f".digits.{'a' * 32}{end}" for end in ("", ".removed")]
    kept = [
        tmp_path / name
        for name in (".digits.notes", "digits", ".queue", f".{'a' * 32}")
    ]
    for path in (*left, *kept):
        (path / "inner").mkdir(parents=True)
    (tmp_path / f".x.{'b' * 32}").symlink_to(tmp_path)
    # Another process may be at work in them
    ExperimentFolder(tmp_path / "first").create({})
    assert all(path.exists() for path in (*left, *kept))
    monkeypatch.setattr(folder_module, "LEFT_S", 0)
    newer = tmp_path / "newer"
    newer.touch()
    while newer.stat().st_ctime <= max(path.stat().st_ctime for path in left):
        newer.touch()  # until the clock of the file system has gone on
    ExperimentFolder(tmp_path / "second").create({})
    assert not any(path.exists() for path in left)
    assert all((path / "inner").exists() for path in kept)


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"\xff",
        b"{",
        b"[" * 100_000,
        b"[]," * 400_000,
        b"[]",
        b"{}",
        b'{"format": 2}',
        b'{"format": 1}',
        b'{"format": 1, "spec": {"objective": {"metric": "a", "mode": "up"}}}',
    ],
)
def test_document_damaged_is_refused(tmp_path, content, snapshot):
    path = tmp_path / EXPERIMENT
    if content is not None:
        path.write_bytes(content)
    with snapshot.raises(UsageError) as caught:
        ExperimentFolder(tmp_path).read_document()
    assert os.fspath(path) in str(caught.value)


def test_location_follows_from_the_path(tmp_path, monkeypatch):
    path = make_folder(tmp_path / "runs/digits")
    folder = ExperimentFolder(path)
    assert (folder.location, folder.locate("report.html")) == (
        str(path),
        f"{path}/report.html",
    )
    monkeypatch.chdir(path)
    assert (ExperimentFolder(".").name, ExperimentFolder(".").storage) == (
        "digits",
        str(path.parent),
    )


def test_remove_and_rename_refuse_links(snapshot, tmp_path):
    made = make_folder(tmp_path / "made/digits")
    link = tmp_path / "digits"
    link.symlink_to(made)
    folder = ExperimentFolder(link)
    for change in (lambda: folder.remove(warn=print), lambda: folder.rename("other")):
        with snapshot.raises(UsageError):
            change()
    assert (link / "experiment.json").is_file()


def test_remove_deletes_everything(snapshot, tmp_path, writer):
    writer.checkpoint(writer.trial(0, [0.5]), 1)
    with snapshot.raises(UsageError):
        ExperimentFolder(writer.folder).remove(warn=print)
    writer.end()
    assert (
        ExperimentFolder(writer.folder).list_sizes()[
            "trials/00000/checkpoints/1/state.pt"
        ]
        == 7
    )
    ExperimentFolder(writer.folder).remove(warn=print)
    assert list(tmp_path.iterdir()) == []


def test_mark_changes_with_journal_and_documents(tmp_path):
    folder = ExperimentFolder(make_folder(tmp_path / "x"))
    marks = {folder.compute_fingerprint()}
    writer = Writer(folder.path)
    marks.add(folder.compute_fingerprint())
    writer.trial(0, [0.5])
    marks.add(folder.compute_fingerprint())
    folder.write("labels.json", {"tags": [], "note": "a"})
    marks.add(folder.compute_fingerprint())
    assert len(marks) == 4
    assert folder.compute_fingerprint() in marks
    writer.end()
