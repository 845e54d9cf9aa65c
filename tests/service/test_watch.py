"""The experiments of a storage: what changes is read again, and nothing else."""

import shutil

import pytest
from stores import needs_s3
from synthetic import Writer, make_folder

from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.results.described import Labels
from tuner.experiment.results.listing import list_experiments
from tuner.service import watch
from tuner.service.watch import Experiments, UnknownNameError


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def reads(monkeypatch):
    """The names of the experiments that were read."""
    found = []
    listed = watch.listed
    monkeypatch.setattr(
        watch, "listed", lambda folder, *read: found.append(folder.name) or listed(folder, *read)
    )
    return found


def ended(folder, values=(0.5,)):
    writer = Writer(make_folder(folder))
    writer.trial(0, values)
    writer.end()
    return folder


def test_they_are_those_of_ls(tmp_path):
    ended(tmp_path / "a")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "experiment.json").write_text("{")
    (tmp_path / "other").mkdir()
    assert Experiments(str(tmp_path)).all() == list_experiments(tmp_path)


def test_only_what_has_changed_is_read_again(tmp_path, clock, reads):
    ended(tmp_path / "a")
    writer = Writer(make_folder(tmp_path / "b"))
    experiments = Experiments(str(tmp_path), clock=clock)
    experiments.all()
    assert sorted(reads) == ["a", "b"]
    reads.clear()
    before = experiments.version
    for _ in range(20):
        clock.now += 1
        experiments.look()
    assert (reads, experiments.version) == ([], before)
    writer.trial(0, [0.6])
    clock.now += 1
    experiments.look()
    assert reads == ["b"]
    [news] = experiments.since(before).listed
    assert (news["name"], news["best"]) == ("b", 0.6)


def test_what_comes_goes_dies_and_is_labelled_is_noticed(tmp_path, clock):
    ended(tmp_path / "a")
    writer = Writer(make_folder(tmp_path / "b"))
    experiments = Experiments(str(tmp_path), clock=clock)
    experiments.all()
    before = experiments.version
    writer.kill()
    shutil.rmtree(tmp_path / "a")
    ended(tmp_path / "c")
    Labels(("good",)).write(ExperimentFolder(writer.folder))
    clock.now += 10
    experiments.look()
    news = experiments.since(before)
    assert news.gone == ["a"]
    assert {one["name"]: (one["status"], one["tags"]) for one in news.listed} == {
        "b": ("interrupted", ("good",)),
        "c": ("completed", ()),
    }


def test_many_are_shown_as_they_are_read_the_latest_first(tmp_path, monkeypatch):
    monkeypatch.setattr(watch, "_BATCH", 1)
    for name in ("old", "new"):
        ended(tmp_path / name)
    experiments = Experiments(str(tmp_path))
    assert experiments.look()
    first = experiments.since(0)
    assert ([one["name"] for one in first.listed], first.to_read) == (["new"], 1)
    assert not experiments.look()
    assert experiments.since(0).to_read == 0


@pytest.mark.parametrize("name", ["..", ".", "", "/etc", "../outside", "a/trials", "b\0", "~"])
def test_no_name_leads_out_of_the_storage(tmp_path, name):
    ended(tmp_path / "outside")
    ended(tmp_path / "storage" / "a")
    experiments = Experiments(str(tmp_path / "storage"))
    assert experiments.folder("a") == tmp_path / "storage" / "a"
    with pytest.raises(UnknownNameError, match="no experiment"):
        experiments.folder(name)


def test_one_that_was_just_made_is_found(tmp_path, clock):
    experiments = Experiments(str(tmp_path), clock=clock)
    assert experiments.all() == []
    ended(tmp_path / "digits")
    assert experiments.opened("digits").status == "completed"
    with pytest.raises(UnknownNameError, match="did you mean 'digits'"):
        experiments.opened("digitz")


@needs_s3
def test_those_of_a_bucket_are_asked_for_what_has_changed(s3, tmp_path, monkeypatch, clock, reads):
    monkeypatch.setenv("TUNER_MIRROR", str(tmp_path / "here"))
    folder = watch.storage_folder(s3) / "digits"
    for name in ("digits", "mnist"):
        ended(tmp_path / "made" / name)
    upload(tmp_path / "made", s3)
    experiments = Experiments(s3, clock=clock)
    assert [(one.name, one.best) for one in experiments.all()] == [("digits", 0.5), ("mnist", 0.5)]
    reads.clear()
    clock.now += 1000
    experiments.look()
    assert reads == []
    Labels(("good",)).write(ExperimentFolder(folder))
    clock.now += 1000
    experiments.look()
    assert reads == ["digits"]
    assert experiments.opened("digits").labels.tags == ("good",)


def upload(folder, url):
    """Put experiments where a driver with this storage would have."""
    import s3fs

    system = s3fs.S3FileSystem(use_listings_cache=False)
    for experiment in folder.iterdir():
        data = (experiment / "journal.jsonl").read_bytes()
        at = f"{url}/{experiment.name}"
        system.pipe_file(f"{at}/lock/000001.json", b"{}")
        system.pipe_file(f"{at}/lock/000001.beat", b"released")
        system.pipe_file(f"{at}/journal/000001-{0:012}-{len(data):012}.jsonl", data)
        system.pipe_file(f"{at}/experiment.json", (experiment / "experiment.json").read_bytes())
