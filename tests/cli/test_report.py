"""tuner report."""

import json

import optuna
import pytest
from commands import call
from stories import search


@pytest.fixture
def digits(here):
    """A search of 12 trials in the storage."""
    return search(here / "results" / "digits", 12)


def test_a_report_is_written_into_the_experiments_folder(digits):
    done = call("report", "digits")
    assert (done.return_value, done.stdout) == (0, "results/digits/report.html\n")
    page = (digits.folder / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "plotly.js v" in page


def test_or_where_it_is_asked_for(digits, tmp_path):
    assert call("report", "digits", "--to", "mine.html").stdout == "mine.html\n"
    assert (tmp_path / "mine.html").stat().st_size > 1_000_000
    wrong = call("report", "digits", "--to", "no/mine.html")
    assert str(wrong.exception) == "cannot write no/mine.html: No such file or directory"


def test_its_numbers_are_json(digits, tmp_path):
    shown = json.loads(call("report", "digits", "--format", "json").stdout)
    assert shown["name"] == "digits"
    assert shown["scheduler"]["saved_epochs"] == 63
    call("report", "digits", "--format", "json", "--to", "numbers.json")
    written = json.loads((tmp_path / "numbers.json").read_text())
    assert {**written, "provenance": None} == {**shown, "provenance": None}


def test_an_optuna_storage_gets_a_study(digits, tmp_path):
    url = "sqlite:///study.db"
    shown = call("report", "digits", "--format", "optuna", "--to", url)
    assert shown.stdout == "study 'digits' of 12 trials\n"
    assert len(optuna.load_study(study_name="digits", storage=url).trials) == 12
    wrong = call("report", "digits", "--format", "optuna")
    assert "needs --to URL, as in --to sqlite:///study.db" in str(wrong.exception)
