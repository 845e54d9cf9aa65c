"""Every snippet of docs/extending.md runs."""

import os
import re
import runpy
import sys

import pytest
from commands import call
from forked import said_by
from installed import install_shown
from pages import ROOT, Page
from synthetic import Writer, make_folder

from tuner import load_results
from tuner.experiment.history import History
from tuner.plugins import FIGURES
from tuner.reporting.notifier import build_deliveries
from tuner.reporting.trackers import Tracker

PAGE = Page("docs/extending.md")


def run_tests(folder):
    """Run the tests below a folder that is on the import path, as in a process of its own."""
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    pytest.main(["-q", "-p", "no:cacheprovider", "--rootdir", str(folder), str(folder)])


@pytest.fixture
def shown_files(working_dir, install):
    """A working directory with the files that the page shows, whose package is installed."""
    PAGE.write_files(working_dir)
    install_shown(PAGE, install)
    return working_dir


def test_commands_show_what_they_name(shown_files):
    for line, done in zip(PAGE.commands, PAGE.run_commands(), strict=True):
        assert (
            re.search(r"my_searcher|my_scheduler|stripes|tiny|lines?", line)[0]
            in done.stdout
        )


def test_searcher_suggests_configs_of_its_settings(shown_files):
    from prepared import resolve_spec

    changes = ["search.strategy=my_package.my_searcher", "search.first=0.8"]
    spec, _ = resolve_spec("digits", changes)
    searcher = spec.search.build(0, objective=spec.objective, max_t=2)
    first, second = (searcher.suggest(str(number)) for number in range(2))
    assert first.keys() == second.keys() == spec.search.space.keys()
    assert first["lr"] > second["lr"]


def test_scheduler_stops_trials_above_its_limit(shown_files):
    module = runpy.run_path("my_package/my_scheduler.py")
    rule = module["Below"](
        module["SETTINGS"](name="my_package.my_scheduler", limit=0.5)
    )
    reports = [(1, 0.9), (2, 0.4), (3, 0.6)]
    assert [rule.goes_on("00000", epoch, loss) for epoch, loss in reports] == [
        True,
        True,
        False,
    ]


@pytest.mark.docs
def test_contracts_pass(shown_files):
    output = said_by(run_tests, shown_files)
    assert re.search(r"^\d+ passed", output, re.MULTILINE), output


def test_package_logs_notifies_draws_and_adds_a_command(shown_files):
    writer = Writer(
        make_folder(shown_files / "results/first", metric="val_loss", mode="min")
    )
    writer.trial(0, [{"val_loss": 0.5}, {"val_loss": 0.25}], config={"lr": 0.1})
    writer.end()
    results = load_results("first")
    history = History(results.objective)
    tracker = Tracker("lines", results.spec, history)
    for event in writer.events:
        history.apply(event)
        tracker(event)
    tracker.close()
    [deliver] = build_deliveries(("append://messages.txt",)).values()
    deliver({"text": "it has ended"})
    logged = (shown_files / "first.txt").read_text().splitlines()
    assert logged[1].endswith(" 1 {'val_loss': 0.5}")
    assert logged[-1].endswith(" completed")
    assert (shown_files / "messages.txt").read_text() == "it has ended\n"
    caption, plot = FIGURES.load("lr")(results)
    assert caption
    assert [*plot.data[0].x, *plot.data[0].y] == [0.1, 0.25]
    assert call("worst", "first").stdout == "worst val_loss: 0.25\n"


def test_paths_exist():
    for path in re.findall(r"`(tuner/[\w/]+(?:\.py)?)`", PAGE.text):
        assert (ROOT / path).exists(), path
