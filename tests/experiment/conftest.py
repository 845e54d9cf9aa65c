"""Journals on disk, for those who write them and those who read them."""

import pytest
from synthetic import Writer

from tuner.experiment.files import JOURNAL


@pytest.fixture
def story(tmp_path):
    """A short journal on disk, as its folder and the events that it holds."""
    writer = Writer(tmp_path)
    writer.trial(1, [0.5, 0.7])
    writer.trial(2, [0.5], error=("exception", "Größe ≠ 3\nline \u2028 two"))
    writer.end()
    return tmp_path, writer.events


@pytest.fixture(scope="module")
def whole_journal(tmp_path_factory):
    """A folder for journals that Hypothesis cuts and bends, the whole bytes, and its events."""
    folder = tmp_path_factory.mktemp("journal")
    writer = Writer(folder)
    writer.trial(1, [0.5, 0.7])
    writer.trial(2, [0.25], error=("nan", "loss is nan after 'epoch' 1"))
    writer.end()
    return folder, (folder / JOURNAL).read_bytes(), writer.events
