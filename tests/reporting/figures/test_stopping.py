from stories import odd, search

from tuner.reporting.figures.stopping import (
    NO_SCHEDULER,
    NO_STOP,
    saved_in_words,
    stopping_figures,
)
from tuner.results.early_stopping import savings_of
from tuner.spec.experiment import build_spec


def savings(results):
    return savings_of(build_spec(results.spec), results.trials.values())


def figures_of(results):
    return stopping_figures(results.history, savings(results))


def test_rungs_show_who_was_stopped_there(tmp_path):
    results = search(tmp_path / "x", 12)  # 8 of the 12 are run to their end or fail
    rungs, _ = figures_of(results)
    went_on, stopped = rungs.plot.data
    assert list(went_on.x) == ["1", "2", "4", "8"]
    assert list(stopped.y) == [7, 0, 0, 0]
    assert list(went_on.y) == [5, 5, 4, 4]
    assert rungs.says == "Most trials were stopped at epoch 1: 7 of the 12 that came to it."


def test_epochs_trained_and_saved_add_up_over_time(tmp_path):
    results = search(tmp_path / "x", 12)
    found = savings(results)
    _, saved = figures_of(results)
    for line, total in zip(saved.plot.data, (found.trained_epochs, found.epochs), strict=True):
        assert list(line.x) == sorted(line.x)
        assert list(line.y) == sorted(line.y)
        assert (line.x[0], line.y[0], line.y[-1]) == (0, 0, total)
    assert saved.plot.data[0].x[-1] == saved.plot.data[1].x[-1]
    assert saved.plot.layout.xaxis.title.text == "seconds since the start"
    assert saved.says.startswith("7 trials stopped early saved 63 of 112 epochs (56%): ")


def test_gpu_hours_are_told_where_there_are_gpus(tmp_path):
    resources = {"cpus": 1, "gpus": 1, "workers": 1}
    with_gpu = search(tmp_path / "x", 6, resources=resources)
    assert "GPU-hours" in saved_in_words(savings(with_gpu))
    assert "GPU-hours" not in saved_in_words(savings(search(tmp_path / "y", 6)))


def test_nothing_to_show_says_why(tmp_path):
    without = [figure.says for figure in figures_of(odd(tmp_path / "x", "no_scheduler"))]
    assert without == [NO_SCHEDULER] * 2
    never = [figure.says for figure in figures_of(odd(tmp_path / "y", "one_trial"))]
    assert never == [NO_STOP] * 2
