"""The outcome beside a journal: it counts for that journal alone."""

import json
from dataclasses import fields

import pytest
from synthetic import Writer, make_folder

from tuner.record.files import JOURNAL, OUTCOME
from tuner.record.folder import ExperimentFolder
from tuner.record.journal import locked
from tuner.results.listing import list_experiments
from tuner.results.outcome import Outcome, written_outcome
from tuner.results.results import Results


@pytest.fixture
def folder(tmp_path):
    folder = make_folder(tmp_path / "digits")
    writer = Writer(folder)
    writer.trial(1, [0.5, 0.4], end="stopped")
    writer.trial(2, [0.6, 0.9, 0.8])
    writer.trial(3, [0.99], error=("oom", "CUDA out of memory"))
    writer.end()
    return folder


@pytest.fixture
def files(folder):
    files = ExperimentFolder(folder)
    Outcome.of(Results(folder)).write(files)
    return files


def test_ls_shows_the_same_with_it_and_does_not_read_the_journal(folder, monkeypatch):
    [read] = list_experiments(folder.parent)
    Outcome.of(Results(folder)).write(ExperimentFolder(folder))
    monkeypatch.setattr(Results, "__init__", lambda self, folder: pytest.fail("it is read"))
    assert list_experiments(folder.parent) == [read]
    assert (read.best, read.counts["failed"]) == (0.9, 1)


def test_another_journal_is_read(files):
    assert written_outcome(files) == Outcome.of(Results(files.path))
    journal = files.path / JOURNAL
    journal.write_text(journal.read_text().replace("0.9", "0.7"))  # of the same size
    assert written_outcome(files) is None
    [listed] = list_experiments(files.path.parent)
    assert listed.best == 0.8


def test_a_journal_that_has_a_driver_is_read(files):
    with locked(files.path):
        assert written_outcome(files) is None


@pytest.mark.parametrize("text", ["", "[]", "{}", "[" * 9999, '{"journal": 1}'])
def test_a_damaged_one_does_not_count(files, text):
    (files.path / OUTCOME).write_text(text)
    assert written_outcome(files) is None


@pytest.mark.parametrize("name", [field.name for field in fields(Outcome)])
@pytest.mark.parametrize("value", [["x"], "\x1b[2J", {"completed": "many"}])
def test_a_field_of_another_type_does_not_count(files, name, value):
    document = json.loads((files.path / OUTCOME).read_text())
    (files.path / OUTCOME).write_text(json.dumps({**document, name: value}))
    known = written_outcome(files)
    assert known is None or (name, value) == ("ended_by", "\x1b[2J")  # text, which is not shown
