import pytest
from stories import odd, search
from synthetic import Clock, Writer, make_folder

from tuner.experiment.results.comparison import Comparison
from tuner.reporting.figures import best, draw_comparison, draw_section
from tuner.reporting.figures.data import FigureData
from tuner.reporting.figures.figure import COLOURS

MEMORY = {"metric": "peak_memory_mib", "mode": "min"}


def history(results, by="trial"):
    """The caption, the dots, the line and the layout."""
    caption, plot = best.draw_history(FigureData(results), by)
    dots, line = plot["data"]
    return caption, dots, line, plot["layout"]


@pytest.mark.parametrize("by", ["trial", "epochs", "time"])
def test_history_best_so_far_only_rises(tmp_path, by):
    caption, dots, line, _ = history(search(tmp_path / "x", 12), by)
    assert line["y"] == sorted(line["y"])
    assert line["x"] == sorted(line["x"])
    assert line["y"][-1] == max(dots["y"])
    after = 11 - 1 - dots["y"].index(max(dots["y"]))
    assert f"{after} after the best one brought nothing better" in caption
    assert dots["customdata"] == [f"{n:05}" for n in range(12) if n != 4]


def test_history_by_epochs_and_time_counts_those_of_all_trials(writer):
    for number, values in enumerate([[0.1, 0.5], [0.7, 0.6, 0.5]]):
        writer.trial(number, values)
    writer.end()
    _, dots, line, layout = history(writer.results, "epochs")
    assert dots["x"] == [2, 3]
    assert line["x"] == [2, 3, 5]
    assert layout["xaxis"]["title"]["text"] == "epochs of all trials"
    _, dots, line, _ = history(writer.results, "time")
    seconds = [round(at) for at in (*dots["x"], line["x"][-1])]
    assert seconds == [3, 6, 8]  # the clock of the tests ticks with each event


def test_history_by_time_leaves_out_what_lies_between_two_runs(tmp_path):
    clock = Clock()
    folder = make_folder(tmp_path / "x")
    writer = Writer(folder, clock=clock)
    writer.trial(0, [0.1])
    writer.end("interrupted")
    clock.now += 36_000
    writer = Writer(folder, resumed=True, clock=clock)
    writer.trial(1, [0.2])
    writer.end()
    _, dots, _, _ = history(writer.results, "time")
    assert dots["x"][1] - dots["x"][0] < 60


def test_history_of_many_trials_draws_every_new_best(tmp_path, monkeypatch):
    results = search(tmp_path / "x", 40)
    _, *whole, _ = history(results)
    monkeypatch.setattr(best, "_MOST_POINTS", 5)
    caption, *thinned, _ = history(results)
    assert 5 <= len(thinned[0]["x"]) < 39
    assert f"Of 39 trials {len(thinned[0]['x'])} are drawn" in caption
    for before, after in zip(whole, thinned, strict=True):
        points = set(zip(before["x"], before["y"], strict=True))
        assert points >= set(zip(after["x"], after["y"], strict=True))
    assert set(thinned[1]["y"]) == set(whole[1]["y"])


@pytest.mark.parametrize(("trials", "tick"), [(4, 1), (40, None)])
def test_history_of_few_trials_has_a_tick_for_each(tmp_path, trials, tick):
    *_, layout = history(search(tmp_path / "x", trials))
    assert layout["xaxis"].get("dtick") == tick


@pytest.mark.parametrize(("values", "kind"), [([0.001, 0.1], "log"), ([0.1, 0.5], "linear")])
def test_history_of_values_over_decades_is_logarithmic(writer, values, kind):
    for number, value in enumerate(values):
        writer.trial(number, [value])
    writer.end()
    *_, layout = history(writer.results)
    assert layout["yaxis"]["type"] == kind


def figures_of(folder, *others):
    objective = {"metric": "val_accuracy", "mode": "max", "others": others}
    results = search(folder, objective=objective)
    return results, {figure.name: figure for figure in draw_section("best", FigureData(results))}


def test_front_and_volume_are_drawn_of_several_objectives(tmp_path):
    results, figures = figures_of(tmp_path / "x", MEMORY)
    *by_status, line = figures["front"].plot["data"]
    assert [trace["name"] for trace in by_status] == ["completed", "stopped", "failed"]
    assert sum(len(trace["x"]) for trace in by_status) == len(results.trials)
    assert line["customdata"] == [trial.trial_id for trial in results.front]
    assert line["mode"] == "lines+markers"
    volumes = figures["volume"].plot["data"][0]["y"]
    assert volumes == sorted(volumes)
    assert 0 < volumes[-1] < 1.001


def test_front_names_the_third_objective_and_the_page_of_one_does_without(tmp_path):
    speed = {"metric": "images_per_s", "mode": "max"}
    _, figures = figures_of(tmp_path / "three", MEMORY, speed)
    assert "The third objective, images_per_s, is not drawn" in figures["front"].caption
    assert figures["front"].plot["data"][-1]["mode"] == "markers"
    _, figures = figures_of(tmp_path / "one")
    assert not {"front", "volume"} & figures.keys()


def test_comparison_draws_a_line_and_a_band_for_each_strategy(tmp_path):
    space = {"strategy": "hyperopt", "space": {"lr": "loguniform(0.001, 1)"}}
    results = [search(tmp_path / f"r{seed}", 12, seed=seed) for seed in range(3)]
    results.append(search(tmp_path / "h", 20, search=space))
    comparison = Comparison(results)
    index = [side.strategy for side in comparison.sides].index("random")
    figure, by_time, curves = draw_comparison(comparison)
    assert [figure.name, by_time.name, curves.name] == ["epochs", "times", "leaders"]
    traces = figure.plot["data"]
    low, high, mean = (t for t in traces if t["line"]["color"] == COLOURS[index])
    assert mean["name"] == "random (3 seeds)"
    assert all(a <= b <= c for a, b, c in zip(low["y"], mean["y"], high["y"], strict=True))
    assert mean["y"] == sorted(mean["y"])
    assert mean["y"][-1] == pytest.approx(comparison.sides[index].best.mean)
    (single,) = (t for t in traces if t["line"]["color"] != COLOURS[index])
    assert single["name"] == "hyperopt (1 seed)"
    assert single["line"]["dash"] != mean["line"]["dash"]
    for kind in (0, -1):
        values = [figure.plot["data"][kind]["y"] for figure in (figure, by_time)]
        assert values[0][-1] == values[1][-1]
    ends = max(trace["x"][-1] for trace in by_time.plot["data"])
    assert 0 < ends <= max(r.history.duration_s for r in results) / 60
    assert by_time.plot["layout"]["xaxis"]["title"]["text"] == "minutes of searching"
    assert len(curves.plot["data"]) == 4
    for trace, result in zip(curves.plot["data"], results, strict=True):
        trial = result.get_best_trial()
        assert trace["name"] == f"{result.name}, trial {trial.trial_id}"
        values = dict(trial.list_values("val_accuracy"))
        assert dict(zip(trace["x"], trace["y"], strict=True)) == pytest.approx(values, rel=1e-5)


def test_comparison_bounds_outliers_and_leaves_out_failed_searches(tmp_path):
    experiments = [odd(tmp_path / "x", "diverged"), odd(tmp_path / "y", "diverged")]
    figure, *_ = draw_comparison(Comparison(experiments))
    assert figure.plot["layout"]["yaxis"]["range"][1] < 1e29
    failed = Comparison([search(tmp_path / "a", 6), odd(tmp_path / "b", "all_failed")])
    (only,) = draw_comparison(failed)[0].plot["data"]
    assert only["name"] == "random (a) (1 seed)"
