from functools import partial

import pytest
import real_ranks
import tiny_images
import torch

from tuner.vision import batches, precision
from tuner.vision.catalog import DATASETS


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Small models are fastest on one thread, and other work shares the cores.

    Of a module, so that it comes before the module's own fixtures, which train models.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def add_dataset(monkeypatch):
    """A function that registers a data set, for the test alone."""
    return partial(monkeypatch.setitem, DATASETS)


@pytest.fixture(autouse=True)
def tiny_dataset(add_dataset):
    """A data set of CIFAR-10's shape and a few random images, under the name "tiny"."""
    add_dataset("tiny", tiny_images.INFO)
    batches._load_pinned_set.cache_clear()


@pytest.fixture
def runs_on(monkeypatch):
    """A function that makes every device seem to have this hardware."""
    return lambda has: monkeypatch.setattr(
        precision, "detect_hardware", lambda device: has
    )


@pytest.fixture(scope="session")
def group(tmp_path_factory):
    """Two ranks in processes of their own, for the cases of all modules."""
    made = real_ranks.Group(tmp_path_factory.mktemp("ranks"))
    yield made
    made.close()
