"""The figures of several objectives."""

from stories import search

from tuner.reporting.figures import draw_section
from tuner.reporting.report import Report

MEMORY = {"metric": "peak_memory_mib", "mode": "min"}


def figures_of(folder, *others):
    objective = {"metric": "val_accuracy", "mode": "max", "others": others}
    results = search(folder, objective=objective)
    return results, {figure.name: figure for figure in draw_section("best", Report(results))}


def test_front_and_volume_are_drawn_of_several_objectives(tmp_path):
    results, figures = figures_of(tmp_path / "x", MEMORY)
    *by_status, line = figures["front"].plot.data
    assert [trace.name for trace in by_status] == ["completed", "stopped", "failed"]
    assert sum(len(trace.x) for trace in by_status) == len(results.trials)
    assert list(line.text) == [trial.trial_id for trial in results.front]
    assert line.mode == "lines+markers"
    volumes = list(figures["volume"].plot.data[0].y)
    assert volumes == sorted(volumes)
    assert 0 < volumes[-1] < 1.001


def test_front_names_the_third_objective_and_the_page_of_one_does_without(tmp_path):
    speed = {"metric": "images_per_s", "mode": "max"}
    _, figures = figures_of(tmp_path / "three", MEMORY, speed)
    assert "The third objective, images_per_s, is not drawn" in figures["front"].caption
    assert figures["front"].plot.data[-1].mode == "markers"
    _, figures = figures_of(tmp_path / "one")
    assert not {"front", "volume"} & figures.keys()
