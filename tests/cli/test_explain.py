"""The commands advise, report, compare, confirm and refine."""

import json

import pytest
from commands import A_FUNCTION, call, fetch_json, refusal
from confirmed import FOUND, retrained, searched
from prepared import resolve_spec
from stories import search
from synthetic import read_document

import tuner


@pytest.fixture
def digits(here):
    """A search of 12 trials in the storage."""
    return search(here / "results/digits", 12, trainable=A_FUNCTION, training={})


def test_report_is_written_into_the_folder_or_to_a_file(digits, tmp_path):
    done = call("report", "digits")
    assert (done.return_value, done.stdout) == (None, "results/digits/report.html\n")
    page = (digits.folder / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "plotly.js v" in page
    assert call("report", "digits", "--to", "mine.html").stdout == "mine.html\n"
    assert (tmp_path / "mine.html").stat().st_size > 1_000_000
    wrong = refusal("report", "digits", "--to", "no/mine.html")
    assert wrong == "cannot write no/mine.html: No such file or directory"


def test_report_as_json_has_the_numbers(digits, tmp_path):
    shown = json.loads(call("report", "digits", "--format", "json").stdout)
    assert shown["name"] == "digits"
    assert sum(shown["counts"].values()) == 12
    call("report", "digits", "--format", "json", "--to", "numbers.json")
    written = read_document(tmp_path / "numbers.json")
    assert {**written, "provenance": None} == {**shown, "provenance": None}


def test_report_as_optuna_writes_a_study(digits):
    shown = call("report", "digits", "--format", "optuna", "--to", "sqlite:///study.db")
    assert shown.stdout == "study 'digits' of 12 trials\n"
    assert (digits.folder.parents[1] / "study.db").stat().st_size
    wrong = refusal("report", "digits", "--format", "optuna")
    assert "needs --to URL, as in --to sqlite:///study.db" in wrong


def test_compare_shows_text_json_and_page(digits, tmp_path):
    more = tmp_path / "results/more"
    search(more, 12, seed=1, trainable=A_FUNCTION, training={})
    shown = call("compare", "digits", "more").stdout
    assert shown.startswith("random by val_accuracy (max), 2 experiments\n")
    document = fetch_json("compare", "digits", "more", "--html", "page.html")
    assert [each["name"] for each in document["strategies"][0]["experiments"]] == [
        "digits",
        "more",
    ]
    assert (tmp_path / "page.html").stat().st_size > 1_000_000
    assert "two experiments or more, got 1" in refusal("compare", "digits")


def test_confirm_json_has_the_leaders(here):
    results = searched(
        here / "results/digits", FOUND, trainable=A_FUNCTION, training={}
    )
    retrained(results, [[0.88, 0.90], [0.91, 0.94]])
    counts = ("--top", "2", "--seeds", "2")
    shown = fetch_json("confirm", "digits", *counts, "--trust")
    assert [leader["trial_id"] for leader in shown["leaders"]] == ["00002", "00001"]
    assert shown["test"] is None  # a plain function measures no test split


def test_refine_writes_a_grid(digits):
    done = call("refine", "digits")
    assert done.return_value is None
    assert "digits-refined.yaml" in done.stdout
    spec, _ = resolve_spec("digits-refined.yaml")
    assert (spec.search.strategy, spec.search.points) == ("grid", 3)


@pytest.mark.parametrize("trainable", ["elsewhere", "__main__:train (by value)"])
def test_refine_of_a_python_search_prints_a_call(here, monkeypatch, trainable):
    results = search(here / "results/far", 12, trainable=trainable, training={})
    done = call("refine", "far")
    command = done.stdout.splitlines()[-1].removeprefix("Run it with: ")
    if trainable == "elsewhere":
        with eval(command, {"tuner": tuner}) as again:
            assert again.suggest().config == results.get_best_trial().config
    else:
        specs = []
        monkeypatch.setattr(tuner, "run_experiment", specs.append, raising=False)
        eval(command, {"tuner": tuner, "train": lambda config: None})
        assert specs[0].search.through == results.get_best_trial().config
        assert callable(specs[0].trainable.value)


def test_advise_shows_findings_or_answers(here):
    search(here / "results/digits", 60, trainable=A_FUNCTION, training={})
    document = fetch_json("advise", "digits")
    assert [*document] == ["findings"]
    for finding in document["findings"]:
        assert [*finding] == ["kind", "severity", "evidence", "action"]
        assert finding["action"]["command"].startswith("tuner ")
    shown = call("advise", "digits", "--ask", "width,lr").stdout
    assert shown.index("by width") < shown.index("by lr")
    assert refusal("advise", "digits", "--ask", "nothing")
