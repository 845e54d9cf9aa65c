from stories import search

from tuner.reporting.figures import best, draw_section
from tuner.reporting.report import Report

MEMORY = {"metric": "peak_memory_mib", "mode": "min"}


def test_history_best_so_far_only_rises(tmp_path):
    caption, plot = best.history(Report(search(tmp_path / "x", 12)))
    dots, line = plot.data[:2]
    assert list(line.y) == sorted(line.y)
    assert line.y[-1] == max(dots.y)
    after = 11 - 1 - list(dots.y).index(max(dots.y))
    assert f"{after} after the best one brought nothing better" in caption


def test_history_of_many_trials_draws_every_new_best(tmp_path, monkeypatch):
    report = Report(search(tmp_path / "x", 40))
    _, whole = best.history(report)
    monkeypatch.setattr(best, "_MOST_POINTS", 5)
    caption, thinned = best.history(report)
    assert 5 <= len(thinned.data[0].x) < 39
    assert f"Of 39 trials {len(thinned.data[0].x)} are drawn" in caption
    for before, after in zip(whole.data, thinned.data, strict=True):
        points = set(zip(before.x, before.y, strict=True))
        assert points >= set(zip(after.x, after.y, strict=True))
    assert set(thinned.data[1].y) == set(whole.data[1].y)


def test_classes_shows_shares_of_each_true_class_once_measured(tmp_path):
    report = Report(search(tmp_path / "x", 9))
    assert "classes" not in [figure.name for figure in draw_section("best", report)]
    matrix = [[3, 1], [0, 4]]
    report.test = {"confusion": {"classes": ["cat", "<b>"], "matrix": matrix}}
    caption, plot = best.classes(report)
    assert [list(row) for row in plot.data[0].z] == [[0.75, 0.25], [0, 1]]
    assert "The least accurate is cat: 75% of 4 images" in caption
    assert "1 are taken for &lt;b&gt;" in caption
    assert "classes" in [figure.name for figure in draw_section("best", report)]


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
