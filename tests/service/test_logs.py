"""The log of a trial as the page shows it."""

import pytest
from stories import search

from tuner.service import logs
from tuner.service.logs import log_of


@pytest.fixture
def results(tmp_path):
    return search(tmp_path / "x", 1)


def write(results, data):
    path = results.folder / "trials" / "00000" / "log.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return log_of(results, results.trials["00000"])


def test_colours_bars_and_control_characters_are_gone(results):
    assert write(results, b"\x1b[1;31mred\x1b[0m\n 1%\r50%\r99%\r\n\x1b]0;title\x07\xff <b>\n") == (
        "red\n99%\n ]0;title \ufffd <b>\n"
    )


def test_nothing_was_written(results):
    assert log_of(results, results.trials["00000"]) == ""


def test_of_a_long_one_the_end_is_read(results, monkeypatch):
    monkeypatch.setattr(logs, "MOST", 17)
    assert write(results, b"first line\nsecond line\nthird\n") == "...\nthird\n"


def test_no_link_leads_to_another_file(results, tmp_path):
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
