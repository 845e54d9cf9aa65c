"""What the page shows in words, beside what the commands print."""

import json

import pytest
from commands import call
from PIL import Image
from served import Served
from stories import ODD, odd, search
from synthetic import Writer, make_folder

from tuner.experiment.results.comparison import Comparison
from tuner.experiment.results.measured_tests import record_test
from tuner.experiment.results.results import Results
from tuner.reporting.comparison_text import format_verdict
from tuner.reporting.report import Report
from tuner.service.views import describe_experiment


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    root = tmp_path_factory.mktemp("storage")
    search(root / "digits", 12)
    search(root / "again", 15, seed=1)
    odd(root / "failed", "all_failed")
    return root


def test_table_has_the_words_of_the_command(snapshot, storage):
    query = {"where": "lr > 0.05", "sort": "lr"}
    table = Served(storage).get("digits", "table", **query, limit=3).json()
    rows = Served(storage).get("digits", "trials", **query).json()
    assert table["total"] == len(rows) > 3
    assert [row["trial_id"] for row in table["rows"]] == [
        row["trial_id"] for row in rows[:3]
    ]
    printed = call(
        "trials", "digits", "--where", "lr > 0.05", "--sort", "lr", "--storage", storage
    )
    head, *lines = printed.stdout.splitlines()
    assert [line.split() for line in lines[:3]] == [
        row["cells"] for row in table["rows"]
    ]
    snapshot("\n".join(column["by"] for column in table["columns"]))
    assert len(head.split()) == len(table["columns"])


def test_experiment_has_the_tiles_of_the_report(storage):
    for name in ("digits", "failed"):
        results = Results(storage / name)
        view = describe_experiment(results)
        assert view["tiles"] == [*Report(results).tiles]
        assert view["best"] == (
            results.get_best_trial().trial_id if results.ranked else None
        )
        json.dumps(view)


def test_trial_stands_beside_the_best(snapshot, storage):
    best = Results(storage / "digits").get_best_trial().trial_id
    for trial_id in ("4", best):
        view = Served(storage).get("digits", "trials", trial_id, "view").json()
        del view["figures"]
        snapshot(json.dumps(view, indent=1))
    snapshot(Served(storage).get("digits", "trials", best, "config").text)


@pytest.fixture
def measured(tmp_path):
    """The folder of a trial whose checkpoint has been measured, one picture of two being here."""
    writer = Writer(make_folder(tmp_path / "photos"))
    writer.trial(0, [0.5], end=None)
    path = writer.checkpoint("00000", 1)
    writer.add("trial_ended", trial_id="00000", status="completed")
    writer.end()
    Image.new("RGB", (300, 200)).save(tmp_path / "a.png")
    entry = {"label": "cat", "predicted": "<i>dog", "probability": 0.9}
    [checkpoint] = Results(writer.folder).trials["00000"].checkpoints
    record = {
        "checkpoint_sha256": checkpoint.sha256,
        "test_accuracy": 0.75,
        "confusion": {"classes": ["cat", "<i>dog"], "matrix": [[2, 1], [0, 1]]},
        "mistakes": [
            {**entry, "file": str(tmp_path / "a.png")},
            {**entry, "file": "/gone.png"},
        ],
    }
    record_test(writer.folder, "00000", record)
    assert path.exists()
    return writer.folder


def test_trial_shows_what_it_gets_wrong(snapshot, measured):
    served = Served(measured.parent)
    view = served.get("photos", "trials", "00000", "view").json()
    assert [figure["name"] for figure in view["figures"]] == ["reports", "confusion"]
    sections = {section["title"]: section for section in view["sections"]}
    snapshot(json.dumps(sections, indent=1))
    first, second = sections["Its surest mistakes"]["pictures"]
    answer = served.ask("GET", first["url"])
    assert answer.headers["content-type"] == "image/jpeg"
    assert answer.content[:2] == b"\xff\xd8"
    assert served.ask("GET", second["url"]).status_code == 400


def test_compare_says_what_the_command_says(snapshot, storage):
    served = Served(storage)
    view = served.ask("GET", "/api/compare?name=digits&name=again").json()
    comparison = Comparison([Results(storage / "digits"), Results(storage / "again")])
    sections = {section["title"]: section for section in view["sections"]}
    assert sections["Which is ahead"]["lines"] == [*format_verdict(comparison)]
    assert sections["Configs of the best trials"]["rows"][0][1:] == ["digits", "again"]
    assert [figure["name"] for figure in view["figures"]] == [
        "epochs",
        "times",
        "leaders",
    ]
    for names in (["digits"], ["digits", "nope"], ["digits"] * 6):
        query = "&".join(f"name={name}" for name in names)
        answer = served.ask("GET", f"/api/compare?{query}")
        snapshot(f"{answer.status_code} {answer.text}")


@pytest.mark.parametrize("kind", ODD)
def test_views_of_odd_experiments_are_complete(tmp_path, kind):
    results = odd(tmp_path / "x", kind)
    served = Served(tmp_path)
    view = describe_experiment(Results(results.folder))
    assert view["tiles"][0][0].startswith("best ")
    json.dumps(view, allow_nan=False)
    table = served.get("x", "table").json()
    assert [row["trial_id"] for row in table["rows"]] == [*results.trials]
    for trial_id in [*results.trials][:3]:
        for what in ("view", "config"):
            assert served.get("x", "trials", trial_id, what).status_code == 200
    shown = served.ask("GET", "/api/compare?name=x&name=x")
    assert (shown.status_code, "different experiments" in shown.text) == (400, True)
