import gc
from pathlib import Path

import pytest
import tiny_images
import torch

from tuner.classifier.image_set import _free_bytes, _home, image_set

CPU = torch.device("cpu")


def tiny(*, split_seed=0):
    return image_set("tiny", data_dir=None, split_seed=split_seed, device=CPU)


def test_holds_the_images_as_rows_of_bytes():
    arrays = tiny_images.load(Path(), split_seed=0)
    images = tiny()
    assert images.rows_NP.dtype == torch.uint8
    assert torch.equal(images.rows_NP.view(-1, 32, 32, 3), torch.tensor(arrays.images_NHWC))
    assert torch.equal(images.labels_N, torch.tensor(arrays.labels_N))
    assert {name: len(rows) for name, rows in images.splits.items()} == {
        "train": 49,
        "validation": 21,
        "test": 13,
    }


def test_is_loaded_once_a_process():
    assert tiny() is tiny()
    assert tiny(split_seed=1) is not tiny()


def test_a_few_are_kept_at_most():
    for seed in range(10):
        tiny(split_seed=seed)
    gc.collect()
    kept = [o for o in gc.get_objects() if type(o).__name__ == "ImageSet"]
    assert len(kept) <= 2


def test_a_read_only_array_gives_no_warning(recwarn):
    from tuner.classifier.image_set import _as_tensor

    array = tiny_images.load(Path(), split_seed=0).images_NHWC
    array.flags.writeable = False
    assert torch.equal(_as_tensor(array), torch.tensor(array))
    assert not recwarn.list


CUDA = torch.device("cuda")


@pytest.mark.parametrize(("size", "home"), [(499, "cuda"), (500, "cuda"), (501, "cpu")])
def test_images_that_would_fill_a_gpu_stay_on_the_host(size, home, monkeypatch):
    monkeypatch.setattr("tuner.classifier.image_set._free_bytes", lambda device: 1000)
    assert _home(size, CUDA).type == home
    assert _home(size, torch.device("cpu")).type == "cpu"


def test_what_a_process_may_take_of_a_shared_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (900, 1000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 100)
    monkeypatch.setattr(torch.cuda, "get_per_process_memory_fraction", lambda device: 1.0)
    assert _free_bytes(CUDA) == 900
    monkeypatch.setattr(torch.cuda, "get_per_process_memory_fraction", lambda device: 0.25)
    assert _free_bytes(CUDA) == 150
