import io

import pytest
from synthetic import Writer, make_folder

from tuner.experiment.results.results import Results
from tuner.reporting.follow import follow, status_text

CONFIG = {"lr": 0.5}


@pytest.fixture
def story(tmp_path):
    """A search that runs: its driver holds the journal."""
    folder = make_folder(tmp_path / "digits", trainable="mine:Learner")
    story = Writer(folder)
    story.trial(0, [0.5, 0.75], config=CONFIG)
    story.trial(1, [0.25], end=None, config=CONFIG)
    yield story
    story.journal.close()


def test_status_text_of_running_search_shows_its_trials(story):
    now = story.events[-1]["time"] + 1
    lines = status_text(Results(story.folder), now=now).splitlines()
    assert lines[0] == "digits: running"
    assert "1/4 trials" in lines[1]
    assert "left" in lines[1]
    assert lines[2:] == [
        "1 running, 1 completed",
        "best val_accuracy 0.75, trial 00000, epoch 2",
        "  lr=0.5",
        "running, each on 1 CPU",
        "  00001  epoch 1    val_accuracy 0.25           lr=0.5",
    ]
    assert all(len(line) <= 80 for line in lines)


def test_follow_shows_a_search_to_its_end(story):
    stream = io.StringIO()

    def sleep(seconds):
        story.trial(2, [0.875], config=CONFIG)
        story.end()

    follow(Results(story.folder), stream=stream, sleep=sleep)
    first, last = stream.getvalue().splitlines()
    assert first == "new best val_accuracy 0.875, trial 00002, epoch 1: lr=0.5"
    assert "2/4 trials: 1 running, 2 completed; best val_accuracy 0.875" in last
