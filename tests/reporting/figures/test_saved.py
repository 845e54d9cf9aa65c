from stories import odd, search

from tuner.reporting.figures import saved
from tuner.reporting.report import NO_SCHEDULER, NO_STOP, Report


def test_epochs_trained_and_saved_add_up_over_time(tmp_path):
    report = Report(search(tmp_path / "x", 12))
    caption, plot = saved.draw(report)
    totals = (report.savings.trained_epochs, report.savings.epochs)
    for line, total in zip(plot.data, totals, strict=True):
        assert list(line.x) == sorted(line.x)
        assert list(line.y) == sorted(line.y)
        assert (line.x[0], line.y[0], line.y[-1]) == (0, 0, total)
    assert plot.data[0].x[-1] == plot.data[1].x[-1]
    assert plot.layout.xaxis.title.text == "seconds since the start"
    assert caption.startswith("7 trials stopped early saved 63 of 112 epochs (56%): ")


def test_gpu_hours_are_told_where_there_are_gpus(tmp_path):
    resources = {"cpus": 1, "gpus": 1, "workers": 1}
    with_gpu, _ = saved.draw(Report(search(tmp_path / "x", 6, resources=resources)))
    without, _ = saved.draw(Report(search(tmp_path / "y", 6)))
    assert "GPU-hours" in with_gpu
    assert "GPU-hours" not in without


def test_nothing_to_show_says_why(tmp_path):
    assert saved.draw(Report(odd(tmp_path / "x", "no_scheduler"))) == (NO_SCHEDULER, None)
    assert saved.draw(Report(odd(tmp_path / "y", "one_trial"))) == (NO_STOP, None)


def test_of_too_many_epochs_a_selection_is_drawn_to_the_end(tmp_path, monkeypatch):
    report = Report(search(tmp_path / "x", 12))
    monkeypatch.setattr(saved, "_MOST_POINTS", 5)
    caption, plot = saved.draw(report)
    assert caption.endswith("The lines are drawn through 5 of their points.")
    totals = [report.savings.trained_epochs, report.savings.epochs]
    assert [(len(line.x), line.y[-1]) for line in plot.data] == [(5, total) for total in totals]
