"""What the figures of benchmarks/finetune/ rest on: photographs, splits and costs."""

import os
import sys

import pytest

from benchmarks.finetune import lines, photos, results


def test_photos_follow_from_set_class_number_and_seed():
    photo = photos.SETS["objects"].photo
    assert photo(0, 1) == photo(0, 1)
    assert len({photo(0, 1), photo(0, 2), photo(1, 1), photo(0, 1, seed=1)}) == 4
    assert photos.SETS["fine"].photo(0, 1) != photo(0, 1)
    assert photos.decoded(photo(0, 1), 64).shape == (64, 64, 3)


def test_a_smaller_folder_is_part_of_a_larger_one(tmp_path):
    small = photos.write_training(tmp_path / "small", "objects", 1)
    large = photos.write_training(tmp_path / "large", "objects", 2)
    test = photos.write_test(tmp_path / "test", "objects", 1)
    files = [{f.read_bytes() for f in folder.rglob("*.jpg")} for folder in (small, large, test)]
    assert [len(photos_) for photos_ in files] == [8, 16, 8]
    assert files[0] < files[1]
    assert not files[1] & files[2]
    pixels, labels_N = photos.read_folder(large, 64)
    assert pixels.shape == (16, 64, 64, 3)
    assert labels_N.tolist() == sorted([*range(8)] * 2)


ROW = {"set": "objects", "size": 20, "seed": 0, "test": 800, "floor": 0.125, "wall_s": 1.0}


def test_peers_get_the_cpu_seconds_of_tuner():
    rows = [{**ROW, "line": "default", "cpu_s": 5.0}, {**ROW, "line": "weights", "cpu_s": 7.0}]
    assert results.budget_of(rows, "objects", 20, 0) == 7.0
    assert results.budget_of(rows[:1], "objects", 20, 0) == 5.0
    rows[1]["refit"] = {"accuracy": 0.5, "cpu_s": 9.0, "wall_s": 2.0}
    assert results.budget_of(rows, "objects", 20, 0) == 9.0
    with pytest.raises(SystemExit, match="measure `weights` or `default`"):
        results.budget_of(rows, "objects", 60, 0)


def test_table_shows_a_refit_below_its_search():
    refit = {"accuracy": 0.75, "cpu_s": 9.0, "wall_s": 2.0}
    row = {**ROW, "line": "weights", "cpu_s": 5.0, "accuracy": 0.5, "refit": refit}
    shown = results.table([row], "objects", 20, ["weights", "fastai"]).splitlines()[-2:]
    assert [line.split(" | ")[0] for line in shown] == ["| weights", "| weights, refit"]
    assert "0.750 (0.719 to 0.779) | 9 | 2 |" in shown[1]


def test_best_named_counts_searches_within_the_interval_of_the_best():
    trials = {"00000": 0.50, "00001": 0.53, "00002": 0.60}
    rows = [{**ROW, "accuracies": trials, "named": named} for named in trials]
    assert "in 1 of 3 searches, and 0.057 behind it, at most 0.100" in results.best_named(rows)


def test_cost_counts_orphans():
    spin = "import time\nwhile time.process_time() < 0.6: pass\n"
    orphan = f"{spin}print(flush=True)\ntime.sleep(2)"
    parent = (
        f"import subprocess, sys\nargs = [sys.executable, '-c', {orphan!r}]\n"
        "subprocess.Popen(args, stdout=subprocess.PIPE).stdout.readline()\n"
        f"{spin}time.sleep(1)"
    )
    cost = lines.Cost()
    cost.run([sys.executable, "-c", parent], env={})
    assert 1.1 < cost.cpu_s < 3
    assert cost.mark not in os.environ.values()
