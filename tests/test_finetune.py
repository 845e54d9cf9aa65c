"""The pure parts of benchmarks/finetune/: photographs, splits, recipes, rows and costs."""

import os
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from benchmarks.finetune import lines, network, peers, photos, results


def test_photos_follow_from_set_class_number_and_seed():
    photo = photos.SETS["objects"].photo
    assert photo(0, 1) == photo(0, 1)
    assert len({photo(0, 1), photo(0, 2), photo(1, 1), photo(0, 1, seed=1)}) == 4
    assert photos.SETS["fine"].photo(0, 1) != photo(0, 1)
    assert photos.decoded(photo(0, 1), 64).shape == (64, 64, 3)


@pytest.mark.parametrize("name", photos.SETS)
def test_every_set_makes_photos_of_its_classes(name):
    made = photos.SETS[name]
    assert len(set(made.kinds)) == len(made.kinds)
    pixels = photos.decoded(made.photo(len(made.kinds) - 1, photos.TEST), photos.PX)
    assert pixels.std() > 2


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


def test_greedy_soup_keeps_what_does_not_harm():
    model = nn.Sequential(nn.Flatten(), nn.Linear(3, 2, bias=False))
    pixels = np.full((4, 1, 1, 3), [[[0, 10, 10]]], np.uint8)
    pixels[2:, ..., 0] = 255
    pixels[::2, ..., 1:] = 20
    data = network.Photos(pixels, np.array([0, 0, 1, 1]))
    good = {"1.weight": torch.tensor([[-1.0, 0, 0], [1, 0, 0]])}
    assert peers.greedy_soup(model, [good, {"1.weight": -9 * good["1.weight"]}], data) is model
    assert torch.equal(model[1].weight, good["1.weight"])
    peers.greedy_soup(model, [good, {"1.weight": 3 * good["1.weight"]}], data)
    assert torch.equal(model[1].weight, 2 * good["1.weight"])


@pytest.mark.parametrize("augment", [network.cropped, peers.trivial])
def test_augmentation_repeats_with_its_generator(augment):
    x_NCHW = torch.randn(12, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    before = x_NCHW.clone()
    first, again = (augment(x_NCHW, torch.Generator().manual_seed(1)) for _ in range(2))
    assert torch.equal(first, again)
    assert first.shape == x_NCHW.shape
    assert torch.equal(x_NCHW, before)


@pytest.mark.parametrize("name", peers.PEERS)
def test_peers_train_on_two_photos_a_class(name, tmp_path, monkeypatch):
    from safetensors.torch import save_file

    monkeypatch.setattr(peers, "SCRATCH_STEPS", 2)
    first = {**peers.PEERS[name].first, "epochs": 1}
    monkeypatch.setitem(peers.PEERS, name, replace(peers.PEERS[name], first=first))
    weights = tmp_path / "weights.safetensors"
    save_file({k: w.contiguous() for k, w in network.network(24).state_dict().items()}, weights)
    folder = photos.write_training(tmp_path / "photos", "objects", 2)
    model, _, summary = peers.search(name, folder, weights, budget_cpu_s=0, seed=0)
    assert model(torch.zeros(2, 3, 64, 64)).shape == (2, 8)
    assert summary["trials"] == 1
    assert summary["config"] == first


def test_weights_replace_all_but_the_head(tmp_path):
    from safetensors.torch import save_file

    source = network.network(24)
    save_file({k: w.contiguous() for k, w in source.state_dict().items()}, tmp_path / "w")
    model = network.network(8, tmp_path / "w")
    assert torch.equal(model.stem.weight, source.stem.weight)
    assert model.head.out_features == 8


ROW = {"set": "objects", "size": 20, "seed": 0, "test": 800, "floor": 0.125, "wall_s": 1.0}


def test_rows_are_kept_after_a_line_that_was_cut_off(tmp_path):
    path = tmp_path / "rows.jsonl"
    results.append(path, {"a": 1})
    with path.open("a") as file:
        file.write('{"a": 2, "b')
    results.append(path, {"a": 3})
    assert results.read(path) == [{"a": 1}, {"a": 3}]
    assert results.read(None) == results.read(tmp_path / "missing") == []


def test_peers_get_the_cpu_seconds_of_tuner():
    rows = [{**ROW, "line": "default", "cpu_s": 5.0}, {**ROW, "line": "weights", "cpu_s": 7.0}]
    assert results.budget_of(rows, "objects", 20, 0) == 7.0
    assert results.budget_of(rows[:1], "objects", 20, 0) == 5.0
    with pytest.raises(SystemExit, match="measure `weights` or `default`"):
        results.budget_of(rows, "objects", 60, 0)


def test_table_shows_means_intervals_and_ratios():
    rows = [
        {**ROW, "line": "weights", "accuracy": 0.8, "cpu_s": 10.0},
        {**ROW, "line": "weights", "accuracy": 0.9, "cpu_s": 20.0, "seed": 1},
        {**ROW, "line": "fastai", "accuracy": 0.7, "cpu_s": 9.0, "trials": 4},
    ]
    head, rule, ours, peer = results.table(rows, "objects", 20, ["weights", "fastai"]).splitlines()[
        1:
    ]
    assert head.count("|") == rule.count("|") == ours.count("|") == peer.count("|")
    assert ours == "| weights | 0.850 (0.824 to 0.873) | 0.50 | 15 | 1 | 0 | 2 | 0.125 |"
    assert peer.startswith("| fastai | 0.700 ")


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
