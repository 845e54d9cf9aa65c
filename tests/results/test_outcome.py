"""The outcome of a journal: read once, and again where anything has changed."""

import json
from dataclasses import fields

import pytest
from synthetic import Writer, make_folder

from tuner.record.files import JOURNAL
from tuner.record.folder import ExperimentFolder
from tuner.record.journal import locked
from tuner.results.listing import list_experiments
from tuner.results.outcome import Outcome, outcome_of
from tuner.results.results import Results


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "tuner" / "outcomes"


@pytest.fixture
def files(tmp_path, cache):
    folder = make_folder(tmp_path / "storage" / "digits")
    writer = Writer(folder)
    writer.trial(1, [0.5, 0.4], end="stopped")
    writer.trial(2, [0.6, 0.9, 0.8])
    writer.trial(3, [0.99], error=("oom", "CUDA out of memory"))
    writer.end()
    return ExperimentFolder(folder)


def reads(files):
    """Whether the journal is read."""
    return isinstance(outcome_of(files)[0], Results)


def test_a_journal_is_read_once_and_ls_shows_the_same(files, monkeypatch):
    [read] = list_experiments(files.path.parent)
    monkeypatch.setattr(Results, "__init__", lambda self, folder: pytest.fail("it is read"))
    assert list_experiments(files.path.parent) == [read]
    assert (read.best, read.counts["failed"], read.total) == (0.9, 1, 4)


def test_trials_that_were_asked_for_beside_the_search_s_own_are_counted_as_to_be_run(tmp_path):
    folder = make_folder(tmp_path / "digits", num_samples=1)
    with_others = Writer(folder)
    with_others.trial(1, [0.5])
    with_others.trial(2, [0.6])  # before the number of samples was made less
    for number in range(2):
        asked = {"verb": "try", "config": {"lr": number}}
        with_others.add("control", id=f"{number}", control=asked)
    with_others.end()
    assert outcome_of(ExperimentFolder(folder))[1].total == 4


@pytest.mark.parametrize("name", [JOURNAL, "experiment.json"])
def test_whatever_changes_is_read(files, name):
    assert [reads(files), reads(files)] == [True, False]
    path = files.path / name
    text = path.read_text()
    path.write_text(text.replace("0.9", "0.7").replace('"max"', '"min"'))  # of the same size
    assert [reads(files), reads(files)] == [True, False]
    assert outcome_of(files)[1] == Outcome.of(Results(files.path))
    path.write_text(text)
    assert outcome_of(files)[1].best == 0.9


def test_a_journal_that_has_a_driver_is_read(files):
    assert reads(files)
    with locked(files.path):
        assert reads(files)


@pytest.mark.parametrize("text", ["", "[]", "{}", "[" * 9999, '{"status": 1}'])
def test_a_damaged_file_of_the_cache_does_not_count(files, cache, text):
    assert reads(files)
    [known] = cache.iterdir()
    known.write_text(text)
    assert reads(files)


@pytest.mark.parametrize("name", [field.name for field in fields(Outcome)])
def test_a_field_of_another_type_does_not_count(files, cache, name):
    assert reads(files)
    [known] = cache.iterdir()
    known.write_text(json.dumps({**json.loads(known.read_text()), name: ["x"]}))
    assert reads(files)


def test_without_a_cache_that_can_be_written_it_is_read(files, cache):
    cache.parent.parent.mkdir(parents=True)
    cache.parent.write_text("no folder")
    assert [reads(files), reads(files)] == [True, True]
