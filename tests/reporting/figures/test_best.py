from confirmed import retrained, searched
from stories import search

from tuner.experiment.results.results import Results
from tuner.reporting.figures import best
from tuner.reporting.report import Report


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


def draw(search, values):
    retrained(search, values)
    report = Report(Results(search.folder))
    return report.confirmation, *best.confirmation(report)


def test_confirmation_shows_seeds_mean_and_searched_value(tmp_path):
    search = searched(tmp_path / "x", {0.1: 0.9, 0.2: 0.8})
    found, caption, plot = draw(search, [[0.7, 0.72, None], [0.6, 0.61, 0.62]])
    seeds, means, shown = plot.data
    assert len(seeds.x) == 5
    assert list(means.x) == list(shown.x) == [f"trial {one.trial_id}" for one in found.leaders]
    assert list(shown.y) == [one.searched for one in found.leaders]
    assert all(reach > 0 for reach in means.error_y.array)
    assert "The search's best, trial 00000, showed val_accuracy 0.9" in caption


def test_confirmation_interval_of_the_chosen_reaches_further_down(tmp_path):
    search = searched(tmp_path / "x", {0.1: 0.9, 0.2: 0.8, 0.3: 0.7})
    _, _, plot = draw(search, [[0.7, 0.72, 0.71], [0.6, 0.61, 0.62], [0.5, 0.52, 0.53]])
    bars = plot.data[1].error_y
    longer = [
        below > above + 1e-9 for above, below in zip(bars.array, bars.arrayminus, strict=True)
    ]
    assert longer == [True, False, False]


def test_confirmation_missing_says_how_to_get_one(tmp_path):
    caption, plot = best.confirmation(Report(searched(tmp_path / "x", {0.1: 0.9})))
    assert (plot, caption) == (None, best.NOT_CONFIRMED)
    assert "tuner confirm" in caption
