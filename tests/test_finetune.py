"""What the figures of benchmarks/finetune/ rest on: photographs, splits and costs."""

import os
import sys

import numpy as np
import pytest

from benchmarks.finetune import lines, peers, photos, results


def test_photos_follow_from_set_class_number_and_seed():
    photo = photos.SETS["objects"].photo
    assert photo(0, 1) == photo(0, 1)
    assert len({photo(0, 1), photo(0, 2), photo(1, 1), photo(0, 1, seed=1)}) == 4
    assert photos.SETS["fine"].photo(0, 1) != photo(0, 1)
    assert photos.decoded(photo(0, 1), 64).shape == (64, 64, 3)


def test_pretraining_and_target_share_no_kind():
    assert len(photos.PRETRAINING.kinds) == 24
    assert not set(photos.PRETRAINING.kinds) & set(photos.SETS["objects"].kinds)


def test_uneven_classes_differ_twentyfold():
    assert photos.SETS["uneven"].counts(200) == [200, 130, 85, 55, 36, 24, 15, 10]
    assert photos.SETS["objects"].counts(3) == [3] * 8


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


def test_stratified_holds_out_a_share_of_each_class():
    labels_N = np.repeat([0, 1, 2], [20, 2, 1])
    held_N = peers.stratified(labels_N, 0.15, seed=0)
    assert np.bincount(labels_N[held_N], minlength=3).tolist() == [3, 1, 0]
    assert (held_N == peers.stratified(labels_N, 0.15, seed=0)).all()


ROW = {"set": "objects", "size": 20, "seed": 0, "test": 800, "floor": 0.125, "wall_s": 1.0}


def test_peers_get_the_cpu_seconds_of_tuner():
    rows = [{**ROW, "line": "default", "cpu_s": 5.0}, {**ROW, "line": "weights", "cpu_s": 7.0}]
    assert results.budget_of(rows, "objects", 20, 0) == 7.0
    assert results.budget_of(rows[:1], "objects", 20, 0) == 5.0
    with pytest.raises(SystemExit, match="measure `weights` or `default`"):
        results.budget_of(rows, "objects", 60, 0)


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


def test_cost_shows_why_a_command_failed():
    with pytest.raises(SystemExit, match="failed: no"):
        lines.Cost().run([sys.executable, "-c", "raise SystemExit('no')"], env={})
