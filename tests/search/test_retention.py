"""Which checkpoints stay on the disk."""

import shutil
import tempfile
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import Writer, make_folder

from tuner.experiment.events import CHECKPOINT
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.history import fold
from tuner.places import ROOT, find_local_folder
from tuner.search.retention import Retention, remove_leftovers
from tuner.spec.sections import Objective

SHA256 = "0" * 64


class Disk:
    """Writes checkpoints as a trial does, and notifies the retention of them."""

    def __init__(self, folder, *, mode="min", earlier=()):
        self.folder = folder
        objective = Objective(metric="m", mode=mode)
        self.history = fold(earlier, objective)
        self.retention = Retention(folder, self.history, objective, sync=self)
        self.events = []
        self.calls = []

    def notify_saved(self, checkpoint):
        self.calls.append(
            ("saved", "".join(checkpoint.relative_to(self.folder).parts[3:4]))
        )

    def remove(self, folder):
        self.calls.append(("removed", folder.name))
        shutil.rmtree(folder, ignore_errors=True)

    def epochs(self, values, trial_id="00001", first=1):
        for epoch, value in enumerate(values, start=first):
            self.event("result", trial_id, epoch=epoch, metrics={"m": value})
            self.checkpoint(epoch, trial_id)
        return self

    def checkpoint(self, epoch, trial_id="00001", path=None):
        if path is None:
            path = f"trials/{trial_id}/checkpoints/{epoch}/state.pt"
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / path).write_text(str(epoch))
        self.event("checkpoint", trial_id, epoch=epoch, path=path, sha256=SHA256)

    def event(self, event, trial_id="00001", **fields):
        record = {"event": event, "time": 1.0, "trial_id": trial_id, **fields}
        self.events.append(record)
        self.history.apply(record)
        self.retention(record)

    def kept(self, trial_id="00001"):
        folder = self.folder / "trials" / trial_id / "checkpoints"
        return sorted(int(path.name) for path in folder.glob("*"))


@pytest.mark.parametrize(
    ("status", "kept"),
    [("completed", [2, 4]), ("stopped", [2, 4]), ("interrupted", [2, 3, 4])],
)
def test_retention_of_an_ended_trial_keeps_the_newest_and_the_best(
    tmp_path, status, kept
):
    disk = Disk(tmp_path).epochs([0.5, 0.2, 0.6, 0.4])
    disk.event("trial_ended", status=status)
    assert disk.kept() == kept


def test_retention_saves_a_checkpoint_before_it_removes_the_ones_it_replaces(tmp_path):
    calls = Disk(tmp_path).epochs([1.0, 0.5, 0.3]).calls
    assert calls == [("saved", "1"), ("saved", "2"), ("saved", "3"), ("removed", "1")]


@given(
    st.lists(st.floats(-9, 9), min_size=1, max_size=12), st.sampled_from(["min", "max"])
)
def test_retention_keeps_at_most_the_right_three(values, mode):
    with tempfile.TemporaryDirectory() as folder:
        disk = Disk(Path(folder), mode=mode).epochs(values)
        best = disk.history.trials["00001"].best.epoch
        assert disk.kept() == sorted({best, len(values), max(1, len(values) - 1)})


def test_retention_keeps_what_a_trial_writes_that_went_back(tmp_path):
    before = Disk(tmp_path).epochs([0.5, 0.2, 0.4])
    after = Disk(tmp_path, earlier=before.events)
    after.checkpoint(1)  # both later ones were damaged: it began anew
    assert 1 in after.kept()


def test_retention_removes_folders_of_a_function_whole(tmp_path):
    disk = Disk(tmp_path)
    for epoch in (1, 2, 3):
        path = f"trials/00001/checkpoints/{epoch}"
        (tmp_path / path / "sub").mkdir(parents=True)
        disk.event("result", epoch=epoch, metrics={"m": 1 / epoch})
        disk.checkpoint(epoch, path=path)
    assert disk.kept() == [2, 3]


def test_retention_removes_nothing_but_checkpoints_whatever_a_journal_names(tmp_path):
    disk = Disk(tmp_path / "digits")
    trial = "trials/00001"
    names = ["../mine/precious.txt", "experiment.json", trial, f"{trial}/log.txt"]
    names += [f"{trial}/checkpoints", f"{trial}/checkpoints/9"]
    (disk.folder / names[-1]).mkdir(parents=True)
    (tmp_path / "mine").mkdir()
    for name in (names[0], names[1], names[3]):
        (disk.folder / name).touch()
    for epoch, name in enumerate([*names, "x", "x"], start=1):
        disk.event("result", epoch=epoch, metrics={"m": 1 / epoch})
        disk.checkpoint(epoch, path=name)
    assert all((disk.folder / name).exists() for name in names)


LEFT = (
    "00000/checkpoints/3/state.pt",  # written, and not journaled
    "00000/checkpoints/2/state.partial",
    "00000/checkpoints/4/state.partial",
    "00002/checkpoints/2.partial/weights/a.pt",
)
KEPT = (
    "00000/log.txt",
    "00000/checkpoints/notes.txt",
    "00000/checkpoints/best/state.pt",
    "00001/checkpoints/9/state.pt",  # of a trial that has ended well
    "00002/checkpoints/1/weights/a.pt",  # a line names its folder
    "00002/checkpoints/1/state.partial",
    "README",
)


@pytest.fixture(params=["folder", "store"])
def killed(request, tmp_path, monkeypatch):
    """An experiment that was killed, with files of all kinds below trials/."""
    monkeypatch.setenv(ROOT, str(tmp_path / "mirrors"))
    root = (
        tmp_path
        if request.param == "folder"
        else find_local_folder(f"memory://{uuid4().hex}/runs")
    )
    writer = Writer(make_folder(root / "digits"))
    writer.trial(0, [0.1, 0.2], end=None)
    for epoch in (1, 2):  # the first is replaced by now, and stays
        writer.checkpoint("00000", epoch)
    writer.trial(1, [0.1])
    writer.trial(2, [0.1], error=("crash", "m"))
    path = "trials/00002/checkpoints/1"
    writer.add(CHECKPOINT, trial_id="00002", epoch=1, path=path, sha256=SHA256)
    for name in (*LEFT, *KEPT):
        path = writer.folder / "trials" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    writer.kill()
    return ExperimentFolder(writer.folder)


def test_sweep_removes_only_what_no_line_names(killed):
    before = killed.list_files("trials")
    remove_leftovers(killed, fold(killed.read_events()).trials.values())
    left = {f"trials/{name}" for name in LEFT}
    assert killed.list_files("trials") == [name for name in before if name not in left]
    assert not (killed.path / "trials/00000/checkpoints/3").exists()
