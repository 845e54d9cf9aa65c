from stories import odd, search
from synthetic import Writer, make_folder

from tuner.experiment.results.results import Results
from tuner.reporting.figures import slots
from tuner.reporting.report import Report


def test_slots_show_each_run_where_and_when_it_was(tmp_path):
    results = search(tmp_path / "x", 6)
    caption, plot = slots.draw(Report(results))
    bars = {trace.name: trace for trace in plot.data}
    assert list(bars) == ["completed", "stopped", "failed"]
    assert [data[0] for data in bars["completed"].customdata] == ["00000", "00003"]
    first = results.trials["00000"]
    assert bars["completed"].base[0] == first.started - results.history.started
    assert bars["completed"].x[0] == first.duration_s
    assert set(bars["stopped"].y) == {"slot 1"}
    assert caption.startswith("White is idle time: of 1 slot x ")


def test_very_many_runs_are_cut_off_and_that_is_said(tmp_path):
    writer = Writer(make_folder(tmp_path / "x"))
    for number in range(3001):
        writer.trial(number)
    writer.end()
    caption, plot = slots.draw(Report(Results(writer.folder)))
    assert sum(len(trace.x) for trace in plot.data) == 3000
    assert "The first 3000 of 3001 runs are drawn." in caption


def test_nothing_to_show_says_why(tmp_path):
    nothing = slots.draw(Report(odd(tmp_path / "x", "no_trial")))
    assert nothing == ("Nothing to show: no trial has run.", None)
