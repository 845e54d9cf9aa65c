"""The JSON endpoints: the shapes of --json, what the page draws, and what is refused."""

import json

import pytest
from commands import call
from served import Served
from stories import odd, search
from synthetic import Writer, make_folder

from tuner.experiment import control
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.results.results import Results
from tuner.reporting.figures import draw_section
from tuner.reporting.figures.data import FigureData
from tuner.service.api import read_log, render_report


@pytest.fixture
def storage(tmp_path):
    search(tmp_path / "digits", 12)
    odd(tmp_path / "failed", "all_failed")
    return tmp_path


@pytest.fixture
def running(tmp_path):
    """A search that a driver holds, with one trial that runs."""
    space = {"strategy": "random", "space": {"lr": "loguniform(0.0001, 1)"}}
    writer = Writer(make_folder(tmp_path / "running", search=space))
    writer.trial(0, [0.5], end=None)
    yield writer
    writer.kill()


@pytest.mark.parametrize(
    ("parts", "query", "command"),
    [
        ((), {"where": "best > 0.5", "sort": "name", "reverse": "1"},
         ("ls", "--where", "best > 0.5", "--sort", "name", "--reverse")),
        ((), {"strategy": "grid"}, ("ls", "--where", "strategy == 'grid'")),
        (("digits",), {}, ("show", "digits")),
        (("failed",), {}, ("show", "failed")),
        (("digits", "best"), {"top": 3, "metric": "images_per_s", "mode": "min"},
         ("best", "digits", "--top", "3", "--metric", "images_per_s", "--mode", "min")),
        (("digits", "trials"), {"where": "lr > 0.05", "sort": "lr"},
         ("trials", "digits", "--where", "lr > 0.05", "--sort", "lr")),
        (("digits", "trials", "4"), {}, ("trials", "digits", "--trial", "4")),
        (("digits", "advice"), {"ask": "lr"}, ("advise", "digits", "--ask", "lr")),
    ],
)  # fmt: skip
def test_answers_equal_those_of_the_commands(storage, parts, query, command):
    printed = call(*command, "--storage", storage, "--json")
    assert Served(storage).get(*parts, **query).json() == json.loads(printed.stdout)


@pytest.mark.parametrize(
    ("parts", "query"),
    [
        (("nope",), {}),
        (("../digits", "spec"), {}),  # a slash ends the name
        (("digits", "trials", "99"), {}),
        (("digits", "trials", "../../etc"), {}),
        (("digits", "trials"), {"where": "lr >"}),
        (("digits", "trials"), {"limit": "-1"}),
        (("digits", "best"), {"top": "0"}),
        (("digits", "figures"), {"section": "best", "metric": "x"}),
        (("digits", "figures"), {"section": "best", "where": "lr >"}),
        (("digits", "figures"), {"section": "all"}),
        (("digits", "figures"), {}),
        (("failed", "best"), {}),
    ],
)
def test_refused_request_has_status_and_reason(snapshot, storage, parts, query):
    answer = Served(storage).get(*parts, **query)
    snapshot(f"{answer.status_code} {answer.text}")


def test_post_control_requests_it(tmp_path, running):
    served = Served(tmp_path)
    answer = served.post("running", "control", verb="stop-trial", trial_id="00000")
    [pending] = control.read_requests(ExperimentFolder(running.folder))
    assert (answer.status_code, answer.json()["id"], pending.by) == (
        202,
        pending.id,
        "browser",
    )
    waits = "stop-trial 00000, asked by browser: the driver has not answered yet"
    shown = {
        **pending.model_dump(mode="json"),
        "text": "stop-trial 00000",
        "line": waits,
    }
    assert served.get("running", "control").json() == [shown]


@pytest.mark.parametrize(
    "body",
    [
        {"verb": "stop-trial", "trial_id": "00007"},
        {"verb": "max-concurrent", "max_concurrent": 0},
        {"verb": "explode"},
        {"verb": "try", "config": {"lr": 7}},
        {},
    ],
)
def test_post_invalid_control_is_refused(snapshot, tmp_path, running, body):
    served = Served(tmp_path)
    answer = served.post("running", "control", **body)
    snapshot(f"{answer.status_code} {answer.text}")
    assert served.get("running", "control").json() == []


def test_log_is_plain_text_and_report_is_sandboxed(storage):
    served = Served(storage)
    log = served.get("digits", "trials", "0", "log")
    assert log.headers["content-type"].startswith("text/plain")
    report = served.get("digits", "report")
    assert report.headers["content-security-policy"].startswith(
        "sandbox allow-scripts;"
    )
    assert "digits" in report.text


def figures_of(storage, *sections, name="digits", **query):
    """The answer, with its figures by their names."""
    answer = Served(storage).get(name, "figures", section=sections, **query).json()
    return {
        **answer,
        "figures": {figure["name"]: figure for figure in answer["figures"]},
    }


def test_figures_are_those_of_the_report(snapshot, storage):
    answer = figures_of(storage, "best", "stopping", by="epochs")
    figures = answer.pop("figures")
    snapshot.compare_value(answer)
    data = FigureData(Results(storage / "digits"))
    drawn = [*draw_section("best", data, by="epochs"), *draw_section("stopping", data)]
    expected = {
        figure.name: json.loads(json.dumps(figure.as_dict())) for figure in drawn
    }
    assert figures == expected


def test_figures_show_the_chosen_trials_alone(storage):
    def drawn(**query):
        return figures_of(storage, "best", **query)["figures"]["history"]["plot"][
            "data"
        ][0]

    everything = drawn()["customdata"]
    some = drawn(where="lr > 0.05 and status == 'stopped'")["customdata"]
    rows = Served(storage).get(
        "digits", "trials", where="lr > 0.05 and status == 'stopped'"
    )
    assert some == [row["trial_id"] for row in rows.json()]
    assert 0 < len(some) < len(everything)
    best = [
        row["trial_id"] for row in Served(storage).get("digits", "best", top=3).json()
    ]
    assert sorted(drawn(top=3)["customdata"]) == sorted(best)
    assert len(drawn(top=1, where="status == 'stopped'")["customdata"]) == 1


def test_figures_without_trials_say_why(storage):
    figures = figures_of(storage, "best", "hyperparameters", "stopping", name="failed")[
        "figures"
    ]
    captions = {
        name: figure["caption"]
        for name, figure in figures.items()
        if not figure["plot"]
    }
    assert captions.keys() == {"history", "hyperparameters", "rungs"}
    assert all(caption.startswith("Nothing to show: ") for caption in captions.values())


@pytest.fixture
def results(tmp_path):
    return search(tmp_path / "x", 1)


def write(results, data, **limit):
    path = results.folder / "trials/00000/log.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return read_log(results, results.trials["00000"], **limit)


def test_log_of_is_the_plain_end(results):
    assert write(
        results, b"\x1b[1;31mred\x1b[0m\n 1%\r50%\r99%\r\n\x1b]0;title\x07\xff <b>\n"
    ) == ("red\n99%\n ]0;title \ufffd <b>\n")
    assert (
        write(results, b"first line\nsecond line\nthird\n", most=17) == "...\nthird\n"
    )


def test_log_of_follows_no_link(results, tmp_path):
    secret = tmp_path / "secret/log.txt"
    secret.parent.mkdir()
    secret.write_text("secret")
    trials = results.folder / "trials"
    trials.mkdir(exist_ok=True)
    (trials / "00000").symlink_to(secret.parent)
    assert read_log(results, results.trials["00000"]) == ""
    (trials / "00000").unlink()
    (trials / "00000").mkdir()
    (trials / "00000/log.txt").symlink_to(secret)
    assert read_log(results, results.trials["00000"]) == ""


def test_report_is_made_once_until_the_journal_changes(tmp_path):
    folder = search(tmp_path / "x", 3).folder
    page = render_report(folder)
    assert render_report(folder) is page
    with (folder / "journal.jsonl").open("a") as journal:
        journal.write('{"event": "unknown", "time": 1700000000.0}\n')
    assert render_report(folder) is not page
