"""An experiment in an object store, seen from machines that have copies of it."""

from uuid import uuid4

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from stores import upload_experiment
from synthetic import Writer, make_folder

from tuner.errors import NameTakenError, StorageError, UsageError
from tuner.experiment.events import COMPLETED, TRIAL_ENDED
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.remote.lease import acquire_lease
from tuner.experiment.remote.objects import Objects
from tuner.experiment.results.described import Labels
from tuner.experiment.results.results import Results, load_results
from tuner.experiment.storage import (
    find_experiment,
    find_experiment_folders,
    find_free_name,
)
from tuner.places import ROOT, find_local_folder, find_url
from tuner.threads import run_in_thread


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    monkeypatch.setenv(ROOT, str(tmp_path / "mirrors"))


@pytest.fixture
def url():
    return f"memory://{uuid4().hex}/runs"


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Makes the mirrors those of another machine."""
    count = iter(range(100))
    return lambda: monkeypatch.setenv(ROOT, str(tmp_path / f"machine{next(count)}"))


@pytest.fixture
def experiment(url, elsewhere):
    """A finished experiment that was made on another machine; its folder here, which is empty."""
    folder = make_folder(find_local_folder(url) / "digits")
    writer = Writer(folder)
    writer.checkpoint(writer.trial(0, [0.5, 0.9], end=None), 2)
    writer.add(TRIAL_ENDED, trial_id="00000", status=COMPLETED)
    writer.end()
    upload_experiment(folder)
    elsewhere()
    return find_local_folder(url) / "digits"


def test_find_experiment_accepts_name_or_url(experiment, url):
    assert not experiment.exists()
    assert (
        find_experiment("digits", url) == find_experiment(f"{url}/digits") == experiment
    )
    results = load_results("digits", url)
    assert results.status == "completed"
    assert results.get_best_trial().trial_id == "00000"


def test_refresh_keeps_a_journal_ahead_and_replaces_a_diverged_one(experiment):
    Results(experiment)
    journal = experiment / "journal.jsonl"
    folder = ExperimentFolder(experiment)
    whole = journal.read_bytes()
    journal.write_bytes(whole + b"more\n")
    folder.refresh()
    assert journal.read_bytes().endswith(b"more\n")
    journal.write_bytes(whole.replace(b"1", b"2"))
    folder.refresh()
    (experiment / ".brought").unlink()
    folder.refresh()
    assert journal.read_bytes() == whole


def test_checkpoint_is_fetched_on_demand(experiment):
    trial = Results(experiment).trials["00000"]
    assert not (experiment / "trials").exists()
    checkpoint = ExperimentFolder(experiment).fetch_checkpoint(
        trial.checkpoints[-1], "00000"
    )
    assert checkpoint.path.exists()
    assert load_results(experiment).best_checkpoint().path.exists()


def test_create_refuses_a_name_taken_in_the_store(snapshot, experiment, url):
    assert find_free_name("digits", url) == "digits-2"
    with snapshot.raises(NameTakenError):
        ExperimentFolder(experiment).create({})


def test_reserve_at_once_lets_one_succeed(url):
    folder = ExperimentFolder(find_local_folder(url) / "new")
    folder.create({"by": 1}, empty=["journal.jsonl"])
    assert (folder.path / "journal.jsonl").exists()
    assert not folder.mirror.reserve(b'{"by": 2}')  # by one that has not seen it yet
    assert b'"by": 1' in Objects(f"{url}/new").read("experiment.json")


def test_create_of_equal_experiments_lets_one_succeed(url, tmp_path, monkeypatch):
    ExperimentFolder(find_local_folder(url) / "new").create({"by": 1})
    monkeypatch.setenv("TUNER_MIRROR", str(tmp_path / "another machine"))
    folder = ExperimentFolder(find_local_folder(url) / "new")
    # As both looked at the same time
    monkeypatch.setattr(ExperimentFolder, "is_taken", False)
    with pytest.raises(NameTakenError):
        folder.create({"by": 1})


def test_event_files_synced_fetches_changed_files(experiment):
    objects = Objects(find_url(experiment))
    for name in ("events.a", "log.txt", "checkpoints/1/events.b"):
        objects.write(f"trials/00000/{name}", b"1")
    folder = ExperimentFolder(experiment)
    with folder.sync_event_files():
        pass
    assert (experiment / "trials/00000/events.a").read_bytes() == b"1"
    assert not (experiment / "trials/00000/log.txt").exists()
    objects.write("trials/00000/events.a", b"22")
    with folder.sync_event_files():
        assert (experiment / "trials/00000/events.a").read_bytes() == b"22"


class Hostile(MemoryFileSystem):
    """Refuses some, and lists what lies outside of a folder."""

    protocol = "hostile"

    def find(self, path, **options):
        files = super().find(path, **options)
        return (
            files | {f"{path}/../../out": {"size": 1}}
            if options.get("detail")
            else files
        )

    def info(self, path, **options):
        if "nowhere" in path:
            raise OSError(0, "no route")
        return super().info(path, **options)

    def get_file(self, path, local_path, **options):
        if path.endswith("/denied"):
            raise PermissionError(0, "expired")
        super().get_file(path, local_path, **options)

    def put_file(self, local_path, path, **options):
        raise PermissionError(0, "no route")


fsspec.register_implementation(Hostile.protocol, Hostile, clobber=True)


def test_unreachable_store_is_a_usage_error(snapshot):
    folder = ExperimentFolder(find_local_folder("hostile://nowhere/runs") / "digits")
    with snapshot.raises(UsageError):
        assert folder.is_taken
    folder.path.mkdir(parents=True)
    with pytest.raises(StorageError, match="no route"):
        folder.write("x.json", {})


def test_fetch_of_a_folder_is_atomic_and_stays_inside():
    url = f"hostile://{uuid4().hex}/runs"
    path = find_local_folder(url) / "digits/7"
    for name in ("a", "denied"):
        Objects(f"{url}/digits/7").write(name, b"1")
    folder = ExperimentFolder(find_local_folder(url) / "digits")
    with pytest.raises(PermissionError):
        folder.fetch("7")
    assert list(path.parent.iterdir()) == []
    Objects(f"{url}/digits/7").remove("denied")
    folder.fetch("7")
    assert [file.name for file in path.iterdir()] == ["a"]


@pytest.fixture
def stored(experiment):
    """A finished experiment in the store, of which there is no copy here."""
    return ExperimentFolder(experiment)


def test_remove_leaves_nothing_in_the_store(stored, url):
    stored.remove(warn=print)
    assert Objects(url).list_names() == []
    assert not stored.path.exists()
    assert list(find_experiment_folders(url)) == []


def test_remove_and_rename_of_a_driven_experiment_are_refused(snapshot, stored, url):
    held = acquire_lease(Objects(f"{url}/digits"), lambda: 0, warn=print)

    def beat(over):
        while not over.wait(0.05):
            held.renew()

    with run_in_thread(beat), snapshot.raises(UsageError):
        stored.remove(warn=print)
    with snapshot.raises(UsageError):
        stored.rename("x")
    assert held.objects.has("experiment.json")


def test_mark_changes_with_the_store(stored, url):
    Results(stored.path)
    first = stored.compute_fingerprint()
    assert stored.compute_fingerprint() == first
    Objects(f"{url}/digits").write("trials/00000/log.txt", b"epoch 1")
    assert stored.compute_fingerprint() == first
    Labels(("good",)).write(stored)
    labelled = stored.compute_fingerprint()
    Objects(f"{url}/digits").write(
        "journal/000001-000000000000-000000000001.jsonl", b"x"
    )
    assert (
        len({repr(mark) for mark in (first, labelled, stored.compute_fingerprint())})
        == 3
    )
