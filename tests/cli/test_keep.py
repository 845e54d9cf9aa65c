"""The commands tag, note, rename, prune and rm."""

import json
from contextlib import ExitStack

import pytest
from commands import call, fetch_json
from confirmed import refitted, retrained, searched
from synthetic import Writer, ended, make_folder, read_document

from tuner.cli import keep
from tuner.errors import SpecError, UsageError
from tuner.experiment.files import REFITTED
from tuner.experiment.journal import Journal
from tuner.experiment.results.confirmation import (
    find_confirmation,
    find_prunable,
    rename_experiment,
)
from tuner.experiment.results.described import Described
from tuner.experiment.results.results import Results
from tuner.spec.code import IMAGE_CLASSIFIER


def test_tag_adds_shows_and_removes(digits):
    assert call("tag", "digits").stdout == "no tags\n"
    assert call("tag", "digits", "good", "cnn").stdout == "good cnn\n"
    assert fetch_json("tag", "digits", "good", "--remove") == ["cnn"]
    assert "TAGS" in call("ls").stdout
    assert "tags: cnn" in call("show", "digits").stdout
    [listed] = fetch_json("ls", "--tag", "cnn")
    assert listed["tags"] == ["cnn"]
    assert call("ls", "--tag", "good").stdout == "no experiment matches\n"


def test_note_writes_shows_and_removes(digits):
    assert call("note", "digits").stdout == "no note\n"
    assert call("note", "digits", "a first look").stdout == "a first look\n"
    assert "note: a first look" in call("show", "digits").stdout
    assert "a first look" in call("ls").stdout
    assert fetch_json("note", "digits") == "a first look"
    assert call("note", "digits", "").stdout == "no note\n"
    assert "NOTE" not in call("ls").stdout


@pytest.fixture
def two(here):
    writer = Writer(make_folder(here / "results/two"))
    for number, value in enumerate([0.9, 0.5]):
        writer.checkpoint(writer.trial(number, [value]), 1, b"x" * 2048)
    writer.end()
    return writer.folder


def test_prune_shows_and_frees_checkpoints(two):
    checkpoints = two / "trials/00001/checkpoints"
    output = "two: checkpoints of 1 trial, 2 KiB\n"
    assert call("prune", "two", "--keep", 1, "--dry-run").stdout == output
    assert "give --yes" in str(call("prune", "two", "--keep", 1).exception)
    assert checkpoints.exists()
    done = call("prune", "two", "--keep", 1, "--yes", "--json")
    freed = {"folders": {"trials/00001/checkpoints": 2048}, "freed": 2048, "kept": ["00000"]}
    assert json.loads(done.stdout) == freed
    assert not checkpoints.exists()
    assert (two / "trials/00000/checkpoints/1/state.pt").exists()
    assert call("prune", "two", "--yes").stdout == "two: checkpoints of 0 trials, 0 B\n"


def test_prune_of_a_running_experiment_is_refused(two):
    with Journal.open(two):
        done = call("prune", "two", "--keep", 1, "--yes")
    assert isinstance(done.exception, UsageError)
    assert (two / "trials/00001/checkpoints/1/state.pt").exists()


def test_prune_during_a_resume_keeps_its_checkpoints(two, monkeypatch):
    with ExitStack() as driver:

        def begin(*args, **kwargs):
            driver.enter_context(Journal.open(two))

        monkeypatch.setattr(keep, "ask", begin)
        assert "another driver" in str(call("prune", "two", "--keep", 1).exception)
    assert (two / "trials/00001/checkpoints/1/state.pt").exists()


def test_rm_removes_the_folder(digits):
    done = call("rm", "digits", "--yes")
    assert done.stdout == "removed results/digits\n"
    assert "results/digits: " in done.stderr
    assert list(digits.parent.iterdir()) == []


def test_rm_of_a_running_experiment_is_refused(digits, here):
    call("rename", "digits", "other")
    folder = here / "results/other"
    with Journal.open(folder):
        done = call("rm", "other", "--yes")
    assert "other is running: end it before it is removed" in str(done.exception)
    assert folder.exists()


def test_rename_changes_folder_and_spec(tmp_path):
    folder = ended(tmp_path / "digits", [0.5])
    assert rename_experiment(Described(folder), "mine").folder == tmp_path / "mine"
    assert not folder.exists()
    results = Results(tmp_path / "mine")
    assert (results.name, results.spec.name, results.show()["name"]) == ("mine", "mine", "mine")
    assert read_document(tmp_path / "mine/experiment.json")["spec"]["name"] == "mine"


def test_rename_to_an_invalid_name_is_refused(snapshot, tmp_path):
    folder = ended(tmp_path / "digits")
    (tmp_path / "taken").mkdir()
    experiment = Described(folder)
    with snapshot.raises(UsageError):
        rename_experiment(experiment, "taken")
    with snapshot.raises(SpecError):
        rename_experiment(experiment, "../up")
    with Journal.open(folder), snapshot.raises(UsageError):
        rename_experiment(experiment, "free")
    assert Results(folder).name == "digits"


@pytest.mark.parametrize("name", ["digits", "digits-confirm"])
def test_rename_confirmed_or_confirming_experiment_is_refused(snapshot, tmp_path, name):
    search = searched(tmp_path / "digits", {0.1: 0.9, 0.2: 0.8})
    retrained(search, [[0.9, 0.8], [0.7, 0.6]])
    with snapshot.raises(UsageError):
        rename_experiment(Described(tmp_path / name), "other")
    assert find_confirmation(Results(search.folder))


@pytest.mark.parametrize("name", ["digits", "digits-refit"])
def test_rename_of_an_experiment_or_the_refit_that_is_handed_over_is_refused(
    snapshot, tmp_path, name
):
    search = searched(tmp_path / "digits", {0.1: 0.9}, trainable=IMAGE_CLASSIFIER, refit=True)
    refitted(search, linked=True)
    with snapshot.raises(UsageError):
        rename_experiment(Described(tmp_path / name), "other")
    search.files.remove_file(REFITTED)  # as a refit that the search does not hand over
    assert rename_experiment(Described(tmp_path / name), "other").name == "other"


def test_prunable_keeps_leaders_and_unfinished_trials(tmp_path):
    writer = Writer(make_folder(tmp_path / "digits"))
    ends = ("completed", "completed", "stopped", "interrupted", None)
    for number, (value, end) in enumerate(zip((0.5, 0.9, 0.4, 0.3, 0.2), ends, strict=True)):
        writer.checkpoint(writer.trial(number, [value], end=end), 1, b"x" * 100)
    writer.trial(5, [0.1], error=("oom", "m"))
    writer.checkpoint("00005", 1)
    writer.kill()
    pruned = find_prunable(writer.results, keep=1)
    assert pruned.folders == {"trials/00000/checkpoints": 100, "trials/00002/checkpoints": 100}
    assert (pruned.freed, pruned.kept) == (200, ("00001", "00003", "00004", "00005"))
    assert find_prunable(writer.results, keep=9).folders == {}


def test_prunable_keeps_the_confirmed_model(tmp_path):
    search = searched(tmp_path / "digits", {0.1: 0.9, 0.2: 0.8})
    confirming = retrained(search, [[0.85, 0.84], [0.9, 0.1]])  # the best model is not the leader's
    handed = find_confirmation(confirming).trial.trial_id
    assert confirming.get_best_trial().trial_id != handed
    assert handed in find_prunable(confirming, keep=1).kept
