"""What the page draws."""

import pytest
from stories import search
from synthetic import Writer, make_folder

from tuner.service.detail import curves_json, log_of, report_of
from tuner.service.watch import Followed


def test_curves_json_has_dots_and_best_so_far(tmp_path):
    writer = Writer(make_folder(tmp_path / "x"))
    for number, value in enumerate([0.5, 0.4, 0.7, 0.99, 0.6]):
        writer.trial(number, [value, 0.1], error=("nan", "m") if number == 3 else None)
    writer.trial(5, [], end=None)
    drawn = curves_json(Followed(writer.folder))
    assert [dot[1] for dot in drawn["dots"]] == [0.5, 0.4, 0.7, 0.99, 0.6]
    assert drawn["dots"][3] == (3, 0.99, "failed")
    assert drawn["best_so_far"] == [(0, 0.5), (2, 0.7)]
    writer.end()


def test_curves_json_chooses_best_running_and_latest(tmp_path):
    writer = Writer(make_folder(tmp_path / "x"))
    writer.trial(0, [0.5])
    writer.trial(1, [0.9, 0.8])
    writer.trial(2, [0.5], end=None)
    writer.trial(3, [0.5])
    drawn = curves_json(Followed(writer.folder), each=1)["curves"]
    assert [(curve["trial_id"], curve["status"]) for curve in drawn] == [
        ("00001", "completed"),
        ("00002", "running"),
        ("00003", "completed"),
    ]
    assert drawn[0]["points"] == [(1, 0.9), (2, 0.8)]
    writer.end()


@pytest.fixture
def results(tmp_path):
    return search(tmp_path / "x", 1)


def write(results, data, **limit):
    path = results.folder / "trials" / "00000" / "log.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return log_of(results, results.trials["00000"], **limit)


def test_log_of_removes_colours_bars_and_control_characters(results):
    assert write(results, b"\x1b[1;31mred\x1b[0m\n 1%\r50%\r99%\r\n\x1b]0;title\x07\xff <b>\n") == (
        "red\n99%\n ]0;title \ufffd <b>\n"
    )


def test_log_of_long_log_is_its_end(results):
    assert write(results, b"first line\nsecond line\nthird\n", most=17) == "...\nthird\n"


def test_log_of_follows_no_link(results, tmp_path):
    secret = tmp_path / "secret" / "log.txt"
    secret.parent.mkdir()
    secret.write_text("secret")
    trials = results.folder / "trials"
    trials.mkdir(exist_ok=True)
    (trials / "00000").symlink_to(secret.parent)
    assert log_of(results, results.trials["00000"]) == ""
    (trials / "00000").unlink()
    (trials / "00000").mkdir()
    (trials / "00000" / "log.txt").symlink_to(secret)
    assert log_of(results, results.trials["00000"]) == ""


def test_report_is_made_once_until_the_journal_changes(tmp_path):
    folder = search(tmp_path / "x", 3).folder
    page = report_of(folder)
    assert report_of(folder) is page
    with (folder / "journal.jsonl").open("a") as journal:
        journal.write('{"event": "unknown", "time": 1700000000.0}\n')
    assert report_of(folder) is not page
