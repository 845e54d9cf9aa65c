"""What an experiment's folder says of what it runs, without its journal."""

import pytest
from synthetic import ended

from tuner.errors import JournalError, UsageError
from tuner.experiment.files import JOURNAL, LABELS
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.results.described import Described, Labels, read_labels
from tuner.experiment.results.results import Results


@pytest.fixture
def files(tmp_path):
    return ExperimentFolder(ended(tmp_path / "digits"))


def test_described_does_not_read_the_journal(files):
    (files.path / JOURNAL).write_text("damaged\n" * 3)
    assert Described(files.path).spec.name == "digits"
    with pytest.raises(JournalError):
        Results(files.path)


def test_labels_round_trip(files):
    assert read_labels(files) == Labels()
    labels = Labels().add_tags(["a", "b", "a"]).replace_note("a first look")
    labels.write(files)
    assert read_labels(files) == labels == Labels(("a", "b"), "a first look")
    labels.add_tags(["c"]).remove_tags(["a"]).write(files)
    assert read_labels(files).tags == ("b", "c")


def test_labels_refuse_invalid_tags_and_notes(snapshot):
    for tag in ("", "two words", "-x", "a" * 51, "\x1b[31m"):
        with snapshot.raises(UsageError):
            Labels().add_tags([tag])
    with snapshot.raises(UsageError):
        Labels().replace_note("x" * 1001)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        '{"tags": 1, "note": ""}',
        '{"tags": ["\\u001b[31m", 3], "note": ""}',
    ],
)
def test_labels_of_a_damaged_file_are_empty(files, text):
    (files.path / LABELS).write_text(text)
    assert read_labels(files) == Labels()
