"""An experiment in an object store, seen from machines that have copies of it."""

from uuid import uuid4

import pytest
from synthetic import Writer, make_folder

from tuner.errors import NameTakenError, UsageError
from tuner.experiment.events import COMPLETED, TRIAL_ENDED
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.remote.lease import acquire
from tuner.experiment.remote.mirror import Mirror
from tuner.experiment.remote.objects import Objects
from tuner.experiment.remote.segments import Uploader
from tuner.experiment.results.described import Labels
from tuner.experiment.results.results import Results, load_results
from tuner.experiment.storage import experiment_folders, find_experiment, free_name
from tuner.places import ROOT, local, url_of


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


def upload(folder, generation=1):
    """Upload a made experiment to the store, as its driver does."""
    objects = Objects(url_of(folder))
    objects.upload(folder / "experiment.json", "experiment.json")
    mine = acquire(objects, lambda: 0, warn=print)
    Uploader(objects, folder / "journal.jsonl", mine.generation).upload()
    for path in sorted(folder.glob("trials/**/*")):
        if path.is_file():
            objects.upload(path, path.relative_to(folder).as_posix())
    mine.release()
    return objects


@pytest.fixture
def experiment(url, elsewhere):
    """A finished experiment that was made on another machine; its folder here, which is empty."""
    folder = make_folder(local(url) / "digits")
    writer = Writer(folder)
    writer.checkpoint(writer.trial(0, [0.5, 0.9], end=None), 2)
    writer.add(TRIAL_ENDED, trial_id="00000", status=COMPLETED)
    writer.end()
    upload(folder)
    elsewhere()
    return local(url) / "digits"


def test_find_experiment_accepts_name_or_url(experiment, url):
    assert not experiment.exists()
    assert find_experiment("digits", url) == find_experiment(f"{url}/digits") == experiment
    results = load_results("digits", url)
    assert results.status == "completed"
    assert results.get_best_trial().trial_id == "00000"


def test_results_refresh_from_the_store(experiment, elsewhere, url):
    before = Results(experiment)
    elsewhere()
    other = local(url) / "digits"
    ExperimentFolder(other).refresh()
    with (other / "journal.jsonl").open("a") as file:
        file.write(
            '{"event":"experiment_started","time":1700000900.0,"resumed":true,'
            '"owner":{"host":"h","pid":1,"started":1.0}}\n'
        )
    upload(other)
    elsewhere()
    assert Results(local(url) / "digits").history.resumed == before.history.resumed + 1


def test_refresh_keeps_a_journal_ahead_of_the_store(experiment):
    Results(experiment)
    with (experiment / "journal.jsonl").open("ab") as file:
        file.write(b"more\n")
    ExperimentFolder(experiment).refresh()
    assert (experiment / "journal.jsonl").read_bytes().endswith(b"more\n")


def test_refresh_replaces_a_diverged_journal(experiment):
    Results(experiment)
    whole = (experiment / "journal.jsonl").read_bytes()
    (experiment / "journal.jsonl").write_bytes(whole.replace(b"1", b"2"))
    ExperimentFolder(experiment).refresh()
    (experiment / ".brought").unlink()
    ExperimentFolder(experiment).refresh()
    assert (experiment / "journal.jsonl").read_bytes() == whole


def test_checkpoint_is_fetched_on_demand(experiment):
    trial = Results(experiment).trials["00000"]
    assert not (experiment / "trials").exists()
    checkpoint = ExperimentFolder(experiment).checkpoint(trial.checkpoints[-1], "00000")
    assert checkpoint.path.exists()
    assert load_results(experiment).best_checkpoint().path.exists()


def test_create_refuses_a_name_taken_in_the_store(experiment, url):
    assert free_name("digits", url) == "digits-2"
    with pytest.raises(NameTakenError, match=rf"exists in {url}.*resume {url}/digits"):
        ExperimentFolder(experiment).create({})


def test_create_at_once_lets_one_succeed(url, elsewhere, monkeypatch):
    folder = local(url) / "new"
    monkeypatch.setattr(Mirror, "is_taken", lambda self: False)
    ExperimentFolder(folder).create({"by": 1}, empty=["journal.jsonl"])
    assert (folder / "journal.jsonl").exists()
    elsewhere()
    with pytest.raises(NameTakenError):
        ExperimentFolder(local(url) / "new").create({"by": 2})
    assert list(local(url).iterdir()) == []
    assert b'"by": 1' in Objects(f"{url}/new").read("experiment.json")


def test_event_files_synced_fetches_changed_files(experiment):
    objects = Objects(url_of(experiment))
    for name in ("events.a", "log.txt", "checkpoints/1/events.b"):
        objects.write(f"trials/00000/{name}", b"1")
    folder = ExperimentFolder(experiment)
    with folder.event_files_synced():
        pass
    assert (experiment / "trials/00000/events.a").read_bytes() == b"1"
    assert not (experiment / "trials/00000/log.txt").exists()
    objects.write("trials/00000/events.a", b"22")
    with folder.event_files_synced():
        assert (experiment / "trials/00000/events.a").read_bytes() == b"22"


def test_fetch_ignores_objects_outside_the_copy(experiment, monkeypatch):
    monkeypatch.setattr(
        Objects, "names", lambda self, prefix="": [f"{prefix}/../../out", f"{prefix}/in"]
    )
    fetched = []

    def download(self, name, path):
        fetched.append(name)
        path.parent.mkdir(parents=True)
        path.touch()

    monkeypatch.setattr(Objects, "download", download)
    ExperimentFolder(experiment).fetch("trials/00000/checkpoints/9")
    assert fetched == ["trials/00000/checkpoints/9/in"]


def test_unreachable_store_is_a_usage_error(experiment, monkeypatch):
    def fail(self, name):
        raise OSError(0, "no route")

    monkeypatch.setattr(Objects, "has", fail)
    with pytest.raises(UsageError, match=r"cannot reach memory://.*: no route"):
        assert ExperimentFolder(experiment).is_taken
    monkeypatch.setattr(Objects, "upload", lambda self, path, name: fail(self, name))
    monkeypatch.setattr("tuner.experiment.remote.mirror.patiently", lambda ask: ask())
    experiment.mkdir(parents=True, exist_ok=True)
    with pytest.raises(OSError, match="no route"):
        ExperimentFolder(experiment).write("x.json", {})


def test_fetch_of_a_folder_is_atomic(experiment, monkeypatch):
    path = experiment / "trials" / "00000" / "checkpoints" / "7"
    for name in ("a", "b"):
        Objects(url_of(path)).write(name, b"1")
    download = Objects.download

    def break_off(self, name, path):
        if name.endswith("/b"):
            raise PermissionError(0, "expired")
        download(self, name, path)

    with monkeypatch.context() as broken:
        broken.setattr(Objects, "download", break_off)
        with pytest.raises(PermissionError):
            ExperimentFolder(experiment).fetch("trials/00000/checkpoints/7")
    assert list(path.parent.iterdir()) == []
    ExperimentFolder(experiment).fetch("trials/00000/checkpoints/7")
    assert sorted(p.name for p in path.iterdir()) == ["a", "b"]


@pytest.fixture
def stored(experiment):
    """A finished experiment in the store, of which there is no copy here."""
    return ExperimentFolder(experiment)


def test_remove_leaves_nothing_in_the_store(stored, url):
    stored.remove(warn=print)
    assert Objects(url).names() == []
    assert not stored.path.exists()
    assert list(experiment_folders(url)) == []


def test_remove_and_rename_of_a_driven_experiment_are_refused(stored, url, monkeypatch):
    held = acquire(Objects(f"{url}/digits"), lambda: 0, warn=print)
    beats = iter(range(1, 100))
    monkeypatch.setattr("tuner.experiment.remote.lease._last_beat", lambda *_: str(next(beats)))
    monkeypatch.setattr("tuner.experiment.remote.lease.Holder.is_gone", False)
    monkeypatch.setattr("tuner.experiment.remote.lease.BEAT_S", 0.01)
    with pytest.raises(UsageError, match="is held by"):
        stored.remove(warn=print)
    with pytest.raises(UsageError, match="is in an object store"):
        stored.rename("x")
    assert held.objects.has("experiment.json")


def test_mark_changes_with_the_store(stored, url):
    Results(stored.path)
    first = stored.mark()
    assert stored.mark() == first
    Objects(f"{url}/digits").write("trials/00000/log.txt", b"epoch 1")
    assert stored.mark() == first
    Labels(("good",)).write(stored)
    labelled = stored.mark()
    Objects(f"{url}/digits").write("journal/000001-000000000000-000000000001.jsonl", b"x")
    assert len({repr(mark) for mark in (first, labelled, stored.mark())}) == 3
