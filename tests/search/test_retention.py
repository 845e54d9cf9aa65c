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
from tuner.experiment.remote.objects import Objects
from tuner.places import ROOT, local, url_of
from tuner.search.retention import Retention, sweep
from tuner.spec.sections import Objective


class Disk:
    """Writes checkpoints as a trial does, and notifies of them as the recorder does."""

    def __init__(self, folder, *, mode="min", earlier=()):
        self.folder = folder
        objective = Objective(metric="m", mode=mode)
        self.history = fold(earlier, objective)
        self.retention = Retention(folder, self.history, objective, sync=self)
        self.events = []

    def saved(self, checkpoint):
        assert checkpoint.is_relative_to(self.folder)

    def remove(self, folder):
        shutil.rmtree(folder, ignore_errors=True)

    def epoch(self, epoch, value, trial_id="00001"):
        self.event("result", trial_id, epoch, metrics={"m": value})
        self.checkpoint(epoch, trial_id)

    def checkpoint(self, epoch, trial_id="00001"):
        path = f"trials/{trial_id}/checkpoints/{epoch}/state.pt"
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(str(epoch))
        self.event("checkpoint", trial_id, epoch, path=path, sha256="0" * 64)

    def event(self, event, trial_id, epoch, **fields):
        record = {"event": event, "time": 1.0, "trial_id": trial_id, "epoch": epoch, **fields}
        self.events.append(record)
        self.history.apply(record)
        self.retention(record)

    def there(self, trial_id="00001"):
        folder = self.folder / "trials" / trial_id / "checkpoints"
        return sorted(int(path.name) for path in folder.glob("*"))


def test_the_newest_two_and_the_best_stay(tmp_path):
    disk = Disk(tmp_path)
    for epoch, value in enumerate([0.5, 0.2, 0.6, 0.4, 0.3], start=1):
        disk.epoch(epoch, value)
    assert disk.there() == [2, 4, 5]
    disk.epoch(6, 0.1)
    assert disk.there() == [5, 6]


@pytest.mark.parametrize(
    ("status", "there"), [("completed", [2, 4]), ("stopped", [2, 4]), ("interrupted", [2, 3, 4])]
)
def test_of_a_trial_that_has_ended_the_newest_and_the_best_stay(tmp_path, status, there):
    disk = Disk(tmp_path)
    for epoch, value in enumerate([0.5, 0.2, 0.6, 0.4], start=1):
        disk.epoch(epoch, value)
    record = {"event": "trial_ended", "time": 1.0, "trial_id": "00001", "status": status}
    disk.history.apply(record)
    disk.retention(record)
    assert disk.there() == there


def test_each_checkpoint_is_saved_before_those_that_it_replaces_are_removed(tmp_path):
    calls = []
    disk = Disk(tmp_path)
    disk.saved = lambda path: calls.append(("saved", path.relative_to(tmp_path).parts[3]))
    disk.remove = lambda path: calls.append(("removed", path.name))
    for epoch in (1, 2, 3):
        disk.epoch(epoch, 1 / epoch)
    assert calls == [("saved", "1"), ("saved", "2"), ("saved", "3"), ("removed", "1")]


@given(st.lists(st.floats(-9, 9), min_size=1, max_size=12), st.sampled_from(["min", "max"]))
def test_at_most_three_stay_and_they_are_the_right_ones(values, mode):
    with tempfile.TemporaryDirectory() as folder:
        disk = Disk(Path(folder), mode=mode)
        for epoch, value in enumerate(values, start=1):
            disk.epoch(epoch, value)
        best = values.index(min(values) if mode == "min" else max(values)) + 1
        assert disk.there() == sorted({best, len(values), max(1, len(values) - 1)})


def test_trials_are_apart(tmp_path):
    disk = Disk(tmp_path)
    for epoch in (1, 2, 3):
        disk.epoch(epoch, 1 / epoch, "00001")
        disk.epoch(epoch, epoch, "00002")
    assert (disk.there("00001"), disk.there("00002")) == ([2, 3], [1, 2, 3])


def test_a_report_without_its_checkpoint_takes_nothing_away(tmp_path):
    disk = Disk(tmp_path)
    disk.epoch(1, 0.5)
    disk.event("result", "00001", 2, metrics={"m": 0.1})
    assert disk.there() == [1]


def test_a_resume_goes_on_with_what_the_run_before_kept(tmp_path):
    before = Disk(tmp_path)
    for epoch, value in enumerate([0.5, 0.2, 0.4], start=1):
        before.epoch(epoch, value)
    after = Disk(tmp_path, earlier=before.events)
    after.epoch(4, 0.3)
    assert after.there() == [2, 3, 4]


def test_a_trial_that_goes_back_keeps_what_it_writes_now(tmp_path):
    before = Disk(tmp_path)
    for epoch, value in enumerate([0.5, 0.2, 0.4], start=1):
        before.epoch(epoch, value)
    after = Disk(tmp_path, earlier=before.events)
    after.checkpoint(1)  # both later ones were damaged: it began anew
    assert 1 in after.there()


def test_folders_of_a_plain_function_go_whole(tmp_path):
    disk = Disk(tmp_path)
    for epoch in (1, 2, 3):
        path = f"trials/00001/checkpoints/{epoch}"
        (tmp_path / path / "sub").mkdir(parents=True)
        disk.event("result", "00001", epoch, metrics={"m": 1 / epoch})
        disk.event("checkpoint", "00001", epoch, path=path, sha256="0" * 64)
    assert disk.there() == [2, 3]


def test_a_path_outside_of_the_folder_is_never_removed(tmp_path):
    outside = tmp_path / "mine" / "precious.txt"
    outside.parent.mkdir()
    outside.write_text("x")
    disk = Disk(tmp_path / "digits")
    for epoch, value in ((1, 0.5), (2, 0.2), (3, 0.1)):
        disk.event("result", "00001", epoch, metrics={"m": value})
        disk.event("checkpoint", "00001", epoch, path="../mine/precious.txt", sha256="0" * 64)
    assert outside.exists()


def test_nothing_but_a_checkpoint_of_a_trial_is_removed(tmp_path):
    """Whatever a foreign journal names as one: not the folder that it lies in, not a trial."""
    disk = Disk(tmp_path / "digits")
    names = ["experiment.json", "trials/00001", "trials/00001/log.txt", "trials/00001/checkpoints"]
    (disk.folder / "trials" / "00001" / "checkpoints" / "9").mkdir(parents=True)
    for name in (names[0], names[2]):
        (disk.folder / name).touch()
    for epoch, name in enumerate([*names, "trials/00001/checkpoints/9"], start=1):
        disk.event("result", "00001", epoch, metrics={"m": 1 / epoch})
        disk.event("checkpoint", "00001", epoch, path=name, sha256="0" * 64)
    for epoch in (6, 7):
        disk.event("checkpoint", "00001", epoch, path="x", sha256="0" * 64)
    assert all((disk.folder / name).exists() for name in names)
    assert (disk.folder / "trials" / "00001" / "checkpoints" / "9").exists()


LEFT = (
    "00000/checkpoints/3/state.pt",  # written, and not journaled
    "00000/checkpoints/2/state.partial",
    "00000/checkpoints/4/state.partial",
    "00002/checkpoints/2.partial/weights/a.pt",
)
OURS = (
    "00000/log.txt",
    "00000/checkpoints/notes.txt",
    "00000/checkpoints/best/state.pt",
    "00001/checkpoints/9/state.pt",  # of a trial that has ended well
    "00002/checkpoints/1/weights/a.pt",  # its folder is named, with whatever it holds
    "00002/checkpoints/1/state.partial",
    "README",
)


@pytest.fixture(params=["folder", "store"])
def killed(request, tmp_path, monkeypatch):
    """An experiment that was killed, with files of all kinds below trials/."""
    monkeypatch.setenv(ROOT, str(tmp_path / "mirrors"))
    root = tmp_path if request.param == "folder" else local(f"memory://{uuid4().hex}/runs")
    writer = Writer(make_folder(root / "digits"))
    writer.trial(0, [0.1, 0.2], end=None)
    for epoch in (1, 2):  # the first is replaced by now, and stays
        writer.checkpoint("00000", epoch)
    writer.trial(1, [0.1])
    writer.trial(2, [0.1], error=("crash", "m"))
    digest = {"path": "trials/00002/checkpoints/1", "sha256": "0" * 64}
    writer.add(CHECKPOINT, trial_id="00002", epoch=1, **digest)
    for name in (*LEFT, *OURS):
        path = writer.folder / "trials" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    writer.kill()
    return ExperimentFolder(writer.folder)


def test_only_what_no_line_names_goes(killed):
    before = killed.files_below("trials")
    sweep(killed, fold(killed.events()).trials.values())
    left = {f"trials/{name}" for name in LEFT}
    assert killed.files_below("trials") == [name for name in before if name not in left]
    assert not (killed.path / "trials" / "00000" / "checkpoints" / "3").exists()


@pytest.mark.parametrize("killed", ["store"], indirect=True)
def test_it_goes_from_the_store_too(killed):
    objects = Objects(url_of(killed.path))
    name = f"trials/{LEFT[0]}"
    objects.write(name, b"x")
    (killed.path / name).unlink()
    sweep(killed, fold(killed.events()).trials.values())
    assert not objects.has(name)


def test_what_cannot_be_removed_is_told_and_no_more(killed, monkeypatch, caplog):
    def refuse(self, name):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(ExperimentFolder, "remove_file", refuse)
    sweep(killed, fold(killed.events()).trials.values())
    assert caplog.messages == ["cannot remove what a kill has left: Permission denied"]
