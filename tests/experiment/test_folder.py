import json
import os
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
from synthetic import Writer, make_folder

from tuner.errors import CheckpointError, NameTakenError, UsageError
from tuner.experiment.events import COMPLETED, TRIAL_ENDED
from tuner.experiment.files import EXPERIMENT, JOURNAL
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.journal import Journal
from tuner.experiment.local_sync import LocalSync
from tuner.experiment.remote.lease import acquire
from tuner.experiment.remote.mirror import Mirror
from tuner.experiment.remote.objects import Objects
from tuner.experiment.remote.segments import Uploader
from tuner.experiment.results.best import record_test, recorded_test
from tuner.experiment.results.described import Labels
from tuner.experiment.results.results import Results, load_results
from tuner.experiment.storage import experiment_folders, find_experiment, free_name
from tuner.places import ROOT, local, url_of


def test_a_name_is_taken_once(tmp_path):
    folder = ExperimentFolder(tmp_path / "new" / "digits")
    assert not folder.is_taken
    folder.create({"format": 1})
    assert folder.is_taken
    assert [path.name for path in folder.path.iterdir()] == [EXPERIMENT]
    with pytest.raises(NameTakenError, match=r"'digits' exists in .*tuner resume digits"):
        folder.create({"format": 2})
    assert json.loads((folder.path / EXPERIMENT).read_text()) == {"format": 1}
    with pytest.raises(UsageError, match="cannot create"):
        ExperimentFolder(folder.path / EXPERIMENT / "inner").create({})


def test_a_link_to_nowhere_takes_a_name_too(tmp_path):
    (tmp_path / "digits").symlink_to("nowhere")
    with pytest.raises(NameTakenError):
        ExperimentFolder(tmp_path / "digits").create({})


def test_of_many_that_create_a_name_one_gets_it_and_nothing_stays_of_the_others(tmp_path):
    def one(number):
        try:
            ExperimentFolder(tmp_path / "x").create({"by": number}, empty=[JOURNAL])
        except NameTakenError:
            return None
        return number

    with ThreadPoolExecutor(8) as pool:
        won = [number for number in pool.map(one, range(64)) if number is not None]
    assert [json.loads((tmp_path / "x" / EXPERIMENT).read_text())["by"]] == won
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert (tmp_path / "x" / JOURNAL).read_bytes() == b""


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "is no experiment: cannot read"),
        (b"\xff", "not JSON"),
        (b"{", "not JSON"),
        (b"[" * 100_000, "it is nested deeper than 30 levels"),
        (b"[]," * 400_000, "it holds more than 200,000 values"),
        (b"[]", "must hold one object"),
        (b"{}", "has format None; this version reads 1"),
        (b'{"format": 2}', "has format 2; this version reads 1"),
        (b'{"format": 1}', "no objective"),
        (b'{"format": 1, "spec": {"objective": {"metric": "a", "mode": "up"}}}', "no objective"),
    ],
)
def test_a_damaged_experiment_json_is_named(tmp_path, content, message):
    path = tmp_path / EXPERIMENT
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=message) as caught:
        ExperimentFolder(tmp_path).document()
    assert os.fspath(path) in str(caught.value)


def test_what_experiment_json_says_is_read_as_it_is(tmp_path):
    folder = ExperimentFolder(make_folder(tmp_path / "digits"))
    written = json.loads((folder.path / EXPERIMENT).read_text())
    assert folder.document() == written == folder.read(EXPERIMENT)


def test_a_document_is_replaced_whole_or_not_at_all(tmp_path):
    folder = ExperimentFolder(tmp_path)
    with pytest.raises(FileNotFoundError):
        folder.read("document.json")
    folder.write("document.json", {"a": 1})
    with pytest.raises(TypeError):
        folder.write("document.json", {"a": object()})
    assert folder.read("document.json") == {"a": 1}
    folder.write("document.json", {"a": 2})
    assert folder.read("document.json") == {"a": 2}
    assert [file.name for file in tmp_path.iterdir()] == ["document.json"]


def test_nothing_is_written_where_a_link_lies(tmp_path):
    folder = ExperimentFolder(make_folder(tmp_path / "digits"))
    (tmp_path / "other").write_text("other")
    (folder.path / "document.json").symlink_to(tmp_path / "other")
    with pytest.raises(UsageError, match=r"document\.json is a symbolic link.*nothing was changed"):
        folder.check()
    with pytest.raises(UsageError, match=r"document\.json is a symbolic link.*nothing was changed"):
        folder.write("document.json", {"a": 1})
    with pytest.raises(OSError, match="it is a symbolic link"):
        folder.read("document.json")
    assert (tmp_path / "other").read_text() == "other"


def test_it_lies_where_its_path_says(tmp_path, monkeypatch):
    path = make_folder(tmp_path / "runs" / "digits")
    folder = ExperimentFolder(path)
    assert (folder.name, folder.storage, folder.is_remote) == ("digits", str(path.parent), False)
    assert (folder.location, folder.locate("report.html")) == (str(path), f"{path}/report.html")
    monkeypatch.chdir(path)
    assert (ExperimentFolder(".").name, ExperimentFolder(".").storage) == (
        "digits",
        str(path.parent),
    )
    assert folder.fetch("trials/00000/log.txt") == path / "trials/00000/log.txt"


def test_a_copy_of_a_store_lies_where_its_url_says(tmp_path, monkeypatch):
    monkeypatch.setenv(ROOT, str(tmp_path))
    folder = ExperimentFolder(local("s3://bucket/runs") / "digits")
    assert (folder.name, folder.storage, folder.is_remote) == ("digits", "s3://bucket/runs", True)
    assert folder.location == "s3://bucket/runs/digits"
    assert folder.locate("report.html") == "s3://bucket/runs/digits/report.html"
    assert "tuner resume s3://bucket/runs/digits" in str(folder.name_taken())


def test_it_is_driven_as_long_as_its_journal_is_open(tmp_path):
    folder = ExperimentFolder(make_folder(tmp_path / "digits"))
    assert not folder.is_driven
    with Journal.open(folder.path):
        assert folder.is_driven
    assert not folder.is_driven


def test_a_folder_that_is_its_own_storage_has_nothing_to_fetch_or_to_drop(tmp_path):
    folder = ExperimentFolder(make_folder(tmp_path / "digits"))
    Writer(folder.path).end()
    before = sorted(path.name for path in folder.path.rglob("*"))
    with folder.held(lambda text: pytest.fail(text)) as sync, folder.event_files_synced():
        assert isinstance(sync, LocalSync)
    folder.refresh()
    folder.fetch("missing")
    folder.upload(folder.path / JOURNAL)
    folder.drop_copy(folder.path / JOURNAL)
    assert not folder.is_driven
    assert sorted(path.name for path in folder.path.rglob("*")) == before


def test_a_link_is_neither_removed_nor_renamed(tmp_path):
    made = make_folder(tmp_path / "made" / "digits")
    link = tmp_path / "digits"
    link.symlink_to(made)
    folder = ExperimentFolder(link)
    for change in (lambda: folder.remove(warn=print), lambda: folder.rename("other")):
        with pytest.raises(UsageError, match="is a link: name the folder that it leads to"):
            change()
    assert (link / "experiment.json").is_file()


def test_what_is_removed_is_gone_with_all_that_it_had(tmp_path):
    writer = Writer(make_folder(tmp_path / "digits"))
    writer.checkpoint(writer.trial(0, [0.5]), 1)
    with pytest.raises(UsageError, match="is held by"):
        ExperimentFolder(writer.folder).remove(warn=print)
    writer.end()
    assert ExperimentFolder(writer.folder).sizes()["trials/00000/checkpoints/1/state.pt"] == 7
    ExperimentFolder(writer.folder).remove(warn=print)
    assert list(tmp_path.iterdir()) == []


def test_its_mark_is_another_once_the_journal_or_a_document_changes(tmp_path):
    folder = ExperimentFolder(make_folder(tmp_path / "x"))
    marks = [folder.mark()]
    writer = Writer(folder.path)
    marks.append(folder.mark())
    writer.trial(0, [0.5])
    marks.append(folder.mark())
    folder.write("labels.json", {"tags": [], "note": "a"})
    marks.append(folder.mark())
    assert len(set(marks)) == 4
    assert folder.mark() == marks[-1]
    writer.end()


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


def test_an_experiment_is_found_by_name_or_url(experiment, url):
    assert not experiment.exists()
    assert find_experiment("digits", url) == find_experiment(f"{url}/digits") == experiment
    results = load_results("digits", url)
    assert results.status == "completed"
    assert results.get_best_trial().trial_id == "00000"


def test_a_missing_one_is_reported_with_those_that_exist(experiment, url):
    with pytest.raises(UsageError, match=rf"no experiment 'digit' in {url}.*available: digits"):
        find_experiment("digit", url)
    assert list(experiment_folders(url)) == [experiment]
    assert list(experiment_folders(f"{url}/digits/trials")) == []


def test_results_are_as_new_as_the_store(experiment, elsewhere, url):
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


def test_a_journal_that_is_ahead_of_the_store_stays(experiment):
    Results(experiment)
    with (experiment / "journal.jsonl").open("ab") as file:
        file.write(b"more\n")
    ExperimentFolder(experiment).refresh()
    assert (experiment / "journal.jsonl").read_bytes().endswith(b"more\n")


def test_one_that_went_another_way_is_the_stores(experiment):
    Results(experiment)
    whole = (experiment / "journal.jsonl").read_bytes()
    (experiment / "journal.jsonl").write_bytes(whole.replace(b"1", b"2"))
    ExperimentFolder(experiment).refresh()
    (experiment / ".brought").unlink()
    ExperimentFolder(experiment).refresh()
    assert (experiment / "journal.jsonl").read_bytes() == whole


def test_a_checkpoint_comes_when_it_is_asked_for(experiment):
    trial = Results(experiment).trials["00000"]
    assert not (experiment / "trials").exists()
    checkpoint = ExperimentFolder(experiment).checkpoint(trial.checkpoints[-1], "00000")
    assert checkpoint.path.exists()
    assert load_results(experiment).best_checkpoint().path.exists()


def test_a_checkpoint_that_the_store_lacks_is_missing(experiment):
    trial = Results(experiment).trials["00000"]
    Objects(url_of(experiment)).remove("trials")
    with pytest.raises(CheckpointError, match="is missing"):
        ExperimentFolder(experiment).checkpoint(trial.checkpoints[-1], "00000")


def test_best_names_the_url(experiment, url):
    results = Results(experiment)
    found = results.best_json(results.get_best_trial())
    assert found["checkpoint"].startswith(f"{url}/digits/trials/00000/checkpoints/")


def test_names_are_taken_in_the_store(experiment, url):
    assert free_name("digits", url) == "digits-2"
    with pytest.raises(NameTakenError, match=rf"exists in {url}.*resume {url}/digits"):
        ExperimentFolder(experiment).create({})


def test_of_two_that_take_a_name_at_once_one_does(url, elsewhere, monkeypatch):
    folder = local(url) / "new"
    monkeypatch.setattr(Mirror, "is_taken", lambda self: False)
    ExperimentFolder(folder).create({"by": 1}, empty=["journal.jsonl"])
    assert (folder / "journal.jsonl").exists()
    elsewhere()
    with pytest.raises(NameTakenError):
        ExperimentFolder(local(url) / "new").create({"by": 2})
    assert list(local(url).iterdir()) == []
    assert b'"by": 1' in Objects(f"{url}/new").read("experiment.json")


def test_what_is_left_of_one_that_the_store_lost_goes(url):
    folder = local(url) / "new"
    folder.mkdir(parents=True)
    (folder / "journal.jsonl").write_text("old\n")
    ExperimentFolder(folder).create({}, empty=["journal.jsonl"])
    assert (folder / "journal.jsonl").read_text() == ""


def test_a_document_is_uploaded_as_it_is_written(experiment, elsewhere, url):
    trial = Results(experiment).trials["00000"]
    checkpoint = ExperimentFolder(experiment).checkpoint(trial.checkpoints[-1], "00000")
    record_test(experiment, "00000", {"checkpoint_sha256": checkpoint.sha256, "test_loss": 1.0})
    elsewhere()
    assert recorded_test(local(url) / "digits", "00000", checkpoint)["test_loss"] == 1.0


def test_event_files_are_fetched_once_and_again_when_they_have_changed(experiment):
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


def test_folders_go_and_come_whole(experiment, elsewhere, url):
    made = experiment / "trials" / "00003" / "checkpoints" / "4"
    (made / "a").mkdir(parents=True)
    (made / "a" / "b").write_text("b")
    (made / "c").write_text("c")
    ExperimentFolder(experiment).upload(made)
    ExperimentFolder(experiment).drop_copy(made)
    assert not made.exists()
    elsewhere()
    again = ExperimentFolder(local(url) / "digits").fetch("trials/00003/checkpoints/4")
    assert (again / "a" / "b").read_text() == "b"
    assert (again / "c").read_text() == "c"


def test_an_object_that_would_leave_the_copy_is_not_fetched(experiment, monkeypatch):
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


def test_a_store_that_cannot_be_reached_is_the_users_to_mend(experiment, monkeypatch):
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


def test_a_folder_that_came_in_part_is_not_there(experiment, monkeypatch):
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


def test_a_removed_experiment_leaves_nothing_in_the_store(stored, url):
    stored.remove(warn=print)
    assert Objects(url).names() == []
    assert not stored.path.exists()
    assert list(experiment_folders(url)) == []


def test_labels_and_pruned_files_are_those_of_the_store(stored, url, elsewhere):
    Results(stored.path)
    Labels(("good",)).write(stored)
    assert stored.sizes()["trials/00000/checkpoints/2/state.pt"] == len(b"weights")
    stored.remove_file("trials/00000/checkpoints")
    elsewhere()
    found = load_results("digits", url)
    assert found.labels.tags == ("good",)
    assert "trials/00000/checkpoints/2/state.pt" not in found.files.sizes()


def test_what_a_driver_holds_is_neither_renamed_nor_removed(stored, url, monkeypatch):
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


def test_what_changes_in_the_store_is_told_without_fetching_it(stored, url):
    Results(stored.path)
    first = stored.mark()
    assert stored.mark() == first
    Objects(f"{url}/digits").write("trials/00000/log.txt", b"epoch 1")
    assert stored.mark() == first
    Labels(("good",)).write(stored)
    labelled = stored.mark()
    Objects(f"{url}/digits").write("journal/000001-000000000000-000000000001.jsonl", b"x")
    assert len({repr(mark) for mark in (first, labelled, stored.mark())}) == 3
