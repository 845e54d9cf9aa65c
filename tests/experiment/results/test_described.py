"""What an experiment's folder says of what it runs, without its journal."""

import pytest
from synthetic import Writer, make_folder

from tuner.errors import JournalError, UsageError
from tuner.experiment.files import JOURNAL
from tuner.experiment.results.described import Described
from tuner.experiment.results.results import Results


@pytest.fixture
def folder(tmp_path):
    return make_folder(tmp_path / "digits")


def test_it_says_what_results_say(folder):
    Writer(folder).end()
    results, described = Results(folder), Described(folder)
    for name in ("name", "folder", "metric", "mode", "objective", "seed", "spec"):
        assert getattr(described, name) == getattr(results, name), name
    assert not described.is_confirmation


def test_the_journal_is_not_read(folder):
    (folder / JOURNAL).write_text("damaged\n" * 3)
    assert Described(folder).spec.name == "digits"
    with pytest.raises(JournalError):
        Results(folder)


def test_a_folder_without_an_experiment_is_refused(tmp_path):
    with pytest.raises(UsageError, match="is no experiment"):
        Described(tmp_path)


def test_a_folder_that_was_moved_has_the_name_that_it_has_now(folder):
    assert Described(folder.rename(folder.with_name("moved"))).spec.name == "moved"
