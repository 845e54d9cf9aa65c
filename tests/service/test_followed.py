"""Results that are kept up to date by what their journal gains."""

import os
from pathlib import Path

from synthetic import Writer, make_folder

from tuner.experiment.files import JOURNAL
from tuner.experiment.history import History
from tuner.experiment.results.results import Results
from tuner.experiment.results.rows import trial_rows
from tuner.service.followed import Followed, Kept


def agree(followed):
    """Whether they are what a reader of the whole journal finds."""
    whole = Results(followed.folder)
    assert followed.show() == whole.show()
    assert followed.rows() == trial_rows(whole)
    assert list(followed.trials) == list(whole.trials)
    return True


def test_they_are_what_the_whole_journal_says_at_every_step(tmp_path):
    writer = Writer(make_folder(tmp_path / "x"))
    followed = Followed(writer.folder)
    assert agree(followed)
    writer.trial(1, [0.5], end=None)
    writer.trial(0, [0.7, 0.9], error=("nan", "m"))
    followed.update()
    assert agree(followed)
    assert list(followed.trials) == ["00000", "00001"]
    writer.add("result", trial_id="00001", epoch=2, metrics={"val_accuracy": 0.8})
    followed.update()
    assert agree(followed)
    writer.end()
    followed.update()
    assert agree(followed)
    assert followed.status == "completed"


def test_no_line_is_read_twice_and_no_row_made_twice(tmp_path, monkeypatch):
    writer = Writer(make_folder(tmp_path / "x"))
    writer.trial(0, [0.5])
    followed = Followed(writer.folder)
    [row] = followed.rows()
    applied = []
    apply = History.apply
    monkeypatch.setattr(
        History, "apply", lambda self, event: applied.append(event) or apply(self, event)
    )
    version = followed.version
    followed.update()
    assert (applied, followed.version) == ([], version)
    writer.trial(1, [0.6])
    followed.update()
    assert [event["event"] for event in applied] == ["trial_started", "result", "trial_ended"]
    assert followed.rows()[0] is row


def test_what_controls_make_of_it_is_known(tmp_path):
    writer = Writer(make_folder(tmp_path / "x"))
    followed = Followed(writer.folder)
    control = {"verb": "num-samples", "num_samples": 99}
    writer.add("control", id="1", control=control)
    writer.add("control", id="2", control={"verb": "pause"})
    followed.update()
    assert agree(followed)
    assert followed.document == Results(writer.folder).document
    assert (followed.document["spec"]["num_samples"], followed.standing) == (99, "paused")
    writer.end()


def test_a_driver_that_dies_and_one_that_goes_on_are_noticed(tmp_path):
    writer = Writer(make_folder(tmp_path / "x"))
    writer.trial(0, [0.5], end=None)
    followed = Followed(writer.folder)
    assert followed.status == "running"
    writer.kill()
    followed.update()
    assert followed.status == "interrupted"
    assert agree(followed)
    writer = Writer(writer.folder, resumed=True)
    followed.update()
    assert agree(followed)
    writer.end()


def test_a_driver_that_was_taken_for_dead_while_it_began_is_alive(tmp_path, monkeypatch):
    writer = Writer(make_folder(tmp_path / "x"))
    writer.trial(0, [0.5], end=None)
    with monkeypatch.context() as patch:
        patch.setattr("tuner.experiment.folder.is_locked", lambda folder: False)
        followed = Followed(writer.folder)
    assert followed.status == "interrupted"
    writer.add("result", trial_id="00000", epoch=2, metrics={"val_accuracy": 0.8})
    followed.update()
    assert agree(followed)
    assert followed.status == "running"


def test_a_journal_that_was_replaced_is_read_anew(tmp_path):
    for name, trials in {"x": 5, "y": 1}.items():
        writer = Writer(make_folder(tmp_path / name))
        for number in range(trials):
            writer.trial(number, [0.5])
        writer.end()
    followed = Followed(tmp_path / "x")
    os.replace(tmp_path / "y" / JOURNAL, tmp_path / "x" / JOURNAL)
    followed.update()
    assert agree(followed)


def test_what_runs_is_kept_and_of_the_others_the_last(tmp_path):
    running = Writer(make_folder(tmp_path / "running"))
    folders = [running.folder]
    for number in range(6):
        writer = Writer(make_folder(tmp_path / f"ended-{number}"))
        writer.end()
        folders.append(writer.folder)
    kept = Kept()
    found = [kept.get(folder) for folder in folders]
    assert [Path(f).name for f in folders if f in kept] == [
        "running",
        *(f"ended-{number}" for number in (2, 3, 4, 5)),
    ]
    assert kept.get(running.folder) is found[0]


def test_what_is_made_of_them_is_made_once_until_they_change(tmp_path):
    writer = Writer(make_folder(tmp_path / "x"))
    followed = Followed(writer.folder)
    made = [followed.once("a", lambda n=n: [n]) for n in (1, 2)]
    assert made == [[1], [1]]
    writer.trial(0, [0.5])
    followed.update()
    assert followed.once("a", lambda: [3]) == [3]
