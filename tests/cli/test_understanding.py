import json
import subprocess
import sys

import optuna
import pytest
from click.testing import CliRunner
from stories import search

from tuner.cli import main as cli


@pytest.fixture
def digits(tmp_path, monkeypatch):
    """A search in the storage of an empty working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TUNER_STORAGE", raising=False)
    return search(tmp_path / "results" / "digits", 12)


def call(*arguments):
    """What a command returns or raises in this process."""
    return CliRunner().invoke(cli.cli, list(arguments), standalone_mode=False)


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
    told = json.loads(call("report", "digits", "--format", "json").stdout)
    assert told["name"] == "digits"
    assert told["scheduler"]["saved_epochs"] == 63
    call("report", "digits", "--format", "json", "--to", "numbers.json")
    kept = json.loads((tmp_path / "numbers.json").read_text())
    assert {**kept, "provenance": None} == {**told, "provenance": None}


def test_an_optuna_storage_gets_a_study(digits, tmp_path):
    url = "sqlite:///study.db"
    told = call("report", "digits", "--format", "optuna", "--to", url)
    assert told.stdout == "study 'digits' of 12 trials\n"
    assert len(optuna.load_study(study_name="digits", storage=url).trials) == 12
    wrong = call("report", "digits", "--format", "optuna")
    assert "needs --to URL, as in --to sqlite:///study.db" in str(wrong.exception)


def test_experiments_are_compared(digits, tmp_path):
    search(tmp_path / "results" / "more", 12, seed=1)
    shown = call("compare", "digits", "more").stdout
    assert shown.startswith("random by val_accuracy (max), 2 experiments\n")
    told = json.loads(call("compare", "digits", "more", "--json", "--html", "page.html").stdout)
    assert [one["name"] for one in told["strategies"][0]["experiments"]] == ["digits", "more"]
    assert (tmp_path / "page.html").stat().st_size > 1_000_000
    assert "two experiments or more, got 1" in str(call("compare", "digits").exception)


def test_the_command_line_imports_none_of_it_until_it_is_used(digits):
    code = (
        "import sys; from tuner import cli; cli.cli(['show', 'digits'], standalone_mode=False);"
        "heavy = {'optuna', 'plotly', 'jinja2', 'pandas'} & set(sys.modules);"
        "print(*heavy, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.strip() == "", done.stderr
