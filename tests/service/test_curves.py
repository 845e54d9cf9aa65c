"""What the page draws."""

import pytest
from stories import search
from synthetic import Writer, make_folder

from tuner.errors import UsageError
from tuner.service import curves
from tuner.service.curves import curves_json
from tuner.service.followed import Followed


def test_a_dot_for_each_trial_and_the_best_so_far(tmp_path):
    writer = Writer(make_folder(tmp_path / "x"))
    for number, value in enumerate([0.5, 0.4, 0.7, 0.99, 0.6]):
        writer.trial(number, [value, 0.1], error=("nan", "m") if number == 3 else None)
    writer.trial(5, [], end=None)
    drawn = curves_json(Followed(writer.folder))
    assert [dot[1] for dot in drawn["dots"]] == [0.5, 0.4, 0.7, 0.99, 0.6]
    assert drawn["dots"][3] == (3, 0.99, "failed")
    assert drawn["best_so_far"] == [(0, 0.5), (2, 0.7)]
    writer.end()


def test_the_best_the_running_and_the_latest_have_curves(tmp_path, monkeypatch):
    monkeypatch.setattr(curves, "_OF_EACH", 1)
    writer = Writer(make_folder(tmp_path / "x"))
    writer.trial(0, [0.5])
    writer.trial(1, [0.9, 0.8])
    writer.trial(2, [0.5], end=None)
    writer.trial(3, [0.5])
    drawn = curves_json(Followed(writer.folder))["curves"]
    assert [(one["trial_id"], one["status"]) for one in drawn] == [
        ("00001", "completed"),
        ("00002", "running"),
        ("00003", "completed"),
    ]
    assert drawn[0]["points"] == [(1, 0.9), (2, 0.8)]
    writer.end()


def test_many_dots_are_thinned_out(tmp_path, monkeypatch):
    monkeypatch.setattr(curves, "_MOST_DOTS", 10)
    drawn = curves_json(Followed(search(tmp_path / "x", 25).folder))
    assert [dot[0] for dot in drawn["dots"]] == list(range(0, 25, 3))


def test_another_metric(tmp_path):
    followed = Followed(search(tmp_path / "x", 6).folder)
    drawn = curves_json(followed, "images_per_s")
    assert (drawn["metric"], drawn["of"]) == ("val_accuracy", "images_per_s")
    assert drawn["curves"][0]["points"][0] == (1, 5000.0)
    with pytest.raises(UsageError, match="unknown metric 'x'"):
        curves_json(followed, "x")
