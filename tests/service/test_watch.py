"""The experiments of a storage: what changes is read again, and nothing else."""

import os
import shutil
from uuid import uuid4

import pytest
from stores import upload_experiment
from synthetic import Clock, Writer, ended, make_folder

from tuner.experiment.files import JOURNAL
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.results.described import Labels
from tuner.experiment.results.listing import list_experiments, summarize_experiment
from tuner.experiment.results.results import Results
from tuner.experiment.results.trial_rows import build_trial_rows
from tuner.places import find_local_folder
from tuner.service.watch import Experiments, Follower, UnknownNameError


@pytest.fixture
def clock():
    return Clock(now=0.0, tick=0.0)


class Reads(list):
    """The names of the experiments that were read."""

    def __call__(self, folder, *read):
        self.append(folder.name)
        return summarize_experiment(folder, *read)


def test_all_equals_list_experiments(tmp_path):
    ended(tmp_path / "a", [0.5])
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged/experiment.json").write_text("{")
    (tmp_path / "other").mkdir()
    assert Experiments(str(tmp_path)).list_experiments() == list_experiments(tmp_path)


def test_look_reads_changed_experiments_only(tmp_path, clock):
    ended(tmp_path / "a", [0.5])
    writer = Writer(make_folder(tmp_path / "b"))
    reads = Reads()
    experiments = Experiments(str(tmp_path), clock=clock, list_one=reads)
    experiments.list_experiments()
    assert sorted(reads) == ["a", "b"]
    reads.clear()
    before = experiments.version
    for _ in range(20):
        clock.now += 1
        experiments.refresh()
    assert (reads, experiments.version) == ([], before)
    writer.trial(0, [0.6])
    clock.now += 1
    experiments.refresh()
    assert reads == ["b"]
    [news] = experiments.list_changes(before)["listed"]
    assert (news["name"], news["best"]) == ("b", 0.6)


def test_look_notices_new_removed_dead_and_labelled_experiments(tmp_path, clock):
    ended(tmp_path / "a", [0.5])
    writer = Writer(make_folder(tmp_path / "b"))
    experiments = Experiments(str(tmp_path), clock=clock)
    experiments.list_experiments()
    before = experiments.version
    writer.kill()
    shutil.rmtree(tmp_path / "a")
    ended(tmp_path / "c", [0.5])
    Labels(("good",)).write(ExperimentFolder(writer.folder))
    clock.now += 10
    experiments.refresh()
    news = experiments.list_changes(before)
    assert news["gone"] == ["a"]
    assert {row["name"]: (row["status"], row["tags"]) for row in news["listed"]} == {
        "b": ("interrupted", ("good",)),
        "c": ("completed", ()),
    }


def test_look_reads_in_batches_latest_first(tmp_path):
    for name in ("old", "new"):
        ended(tmp_path / name, [0.5])
    experiments = Experiments(str(tmp_path), batch=1)
    assert experiments.refresh()
    first = experiments.list_changes(0)
    assert ([row["name"] for row in first["listed"]], first["to_read"]) == (["new"], 1)
    assert not experiments.refresh()
    assert experiments.list_changes(0)["to_read"] == 0


@pytest.mark.parametrize(
    "name", ["..", ".", "", "/etc", "../outside", "a/trials", "b\0", "~"]
)
def test_folder_rejects_names_outside_the_storage(snapshot, tmp_path, name):
    ended(tmp_path / "outside", [0.5])
    ended(tmp_path / "storage/a", [0.5])
    experiments = Experiments(str(tmp_path / "storage"))
    assert experiments.find_folder("a") == tmp_path / "storage/a"
    with snapshot.raises(UnknownNameError):
        experiments.find_folder(name)


def test_opened_finds_new_experiment(snapshot, tmp_path, clock):
    experiments = Experiments(str(tmp_path), clock=clock)
    assert experiments.list_experiments() == []
    ended(tmp_path / "digits", [0.5])
    assert experiments.open_experiment("digits").status == "completed"
    with snapshot.raises(UnknownNameError):
        experiments.open_experiment("digitz")


def test_look_at_bucket_reads_changed_experiments_only(tmp_path, monkeypatch, clock):
    storage = f"memory://{uuid4().hex}/runs"
    monkeypatch.setenv("TUNER_MIRROR", str(tmp_path / "there"))
    for name in ("digits", "mnist"):
        upload_experiment(ended(find_local_folder(storage) / name, [0.5]))
    monkeypatch.setenv("TUNER_MIRROR", str(tmp_path / "here"))
    folder = find_local_folder(storage) / "digits"
    reads = Reads()
    experiments = Experiments(storage, clock=clock, list_one=reads)
    assert [(row.name, row.best) for row in experiments.list_experiments()] == [
        ("digits", 0.5),
        ("mnist", 0.5),
    ]
    reads.clear()
    clock.now += 1000
    experiments.refresh()
    assert reads == []
    Labels(("good",)).write(ExperimentFolder(folder))
    clock.now += 1000
    experiments.refresh()
    assert reads == ["digits"]
    assert experiments.open_experiment("digits").labels.tags == ("good",)


def read(follower):
    """The results as they are now, once they are what a reader of the whole journal finds."""
    followed = follower.read()
    whole = Results(followed.folder)
    assert followed.show() == whole.show()
    assert followed.trials == whole.trials
    assert followed.rows == build_trial_rows(whole)
    return followed


def test_followed_equals_results_at_every_step(writer):
    follower = Follower(writer.folder)
    read(follower)
    writer.trial(1, [0.5], end=None)
    shown = (before := follower.read()).show()
    writer.trial(0, [0.7, 0.9], error=("nan", "m"))
    read(follower)
    writer.add("result", trial_id="00001", epoch=2, metrics={"val_accuracy": 0.8})
    read(follower)
    writer.end()
    assert read(follower).status == "completed"
    assert before.show() == shown


def test_update_applies_each_event_once_and_keeps_rows(writer):
    writer.trial(0, [0.5])
    follower = Follower(writer.folder)
    [row] = follower.latest.rows
    assert follower.read() is follower.latest
    writer.trial(1, [0.6])
    assert read(follower).rows[0] is row


def test_update_applies_controls(writer):
    follower = Follower(writer.folder)
    writer.add("control", id="1", control={"verb": "num-samples", "num_samples": 99})
    writer.add("control", id="2", control={"verb": "pause"})
    results = read(follower)
    assert (results.document["spec"]["num_samples"], results.status_text) == (
        99,
        "paused",
    )
    writer.end()


def test_update_notices_drivers_that_begin_die_and_resume(tmp_path, monkeypatch):
    writer = Writer(make_folder(tmp_path / "x"))
    writer.trial(0, [0.5], end=None)
    with monkeypatch.context() as patch:
        # Not yet
        patch.setattr("tuner.experiment.folder.is_locked", lambda folder: False)
        follower = Follower(writer.folder)
    assert follower.latest.status == "interrupted"
    writer.add("result", trial_id="00000", epoch=2, metrics={"val_accuracy": 0.8})
    assert read(follower).status == "running"
    writer.kill()
    assert read(follower).status == "interrupted"
    writer = Writer(writer.folder, resumed=True)
    read(follower)
    writer.end()


def test_update_reads_replaced_journal_anew(tmp_path):
    ended(tmp_path / "x", [0.5], [0.6])
    ended(tmp_path / "y", [0.5])
    follower = Follower(tmp_path / "x")
    os.replace(tmp_path / "y" / JOURNAL, tmp_path / "x" / JOURNAL)
    read(follower)
