"""The Learner in one file that ships, on tiny archives."""

from dataclasses import fields
from urllib.error import URLError

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from cifar10_archives import NAMES, write_archive

from tuner import DataError, UsageError
from tuner.shipped.experiments import cifar10_speednet
from tuner.shipped.experiments.cifar10_speednet import (
    Settings,
    SpeedNetLearner,
    experiment,
)
from tuner.testing import LearnerContract

ARCHIVE = "cifar-10-binary.tar.gz"
CONFIG = {"lr": 8.0, "weight_decay": 0.02, "label_smoothing": 0.1, "batch_size": 40}


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    """A data folder with an archive of 180, 20 and 40 random images."""
    folder = tmp_path_factory.mktemp("data")
    write_archive(folder / ARCHIVE)
    return str(folder)


def made(data_dir, *, config=CONFIG, device="cpu", world_size=1, **constants):
    values = {"epochs": 3, "seed": 0, "width": 4, "data_dir": data_dir, **constants}
    device = torch.device(device)
    return SpeedNetLearner(config, values, device=device, rank=0, world_size=world_size)


class TestSpeedNetLearner(LearnerContract):
    steps = 2

    @pytest.fixture(autouse=True)
    def find_data(self, data_dir):
        self.data_dir = data_dir

    def make(self, *, seed=0):
        return made(self.data_dir, seed=seed)


def textures(count):
    """The archive's files with images of class k that are pieces of a noisy texture of its own."""
    rng = np.random.default_rng(0)
    tiles = rng.normal(0, 35, (10, 3, 8, 8))
    textures = np.tile(tiles, (1, 1, 5, 5))
    for name in NAMES:
        labels = rng.integers(0, 10, count, dtype=np.uint8)
        corners = rng.integers(0, 8, (count, 2))
        images = [
            textures[label, :, top : top + 32, left : left + 32]
            for label, (top, left) in zip(labels, corners, strict=True)
        ]
        noisy = np.stack(images) + 128 + rng.normal(0, 25, (count, 3, 32, 32))
        pixels = noisy.clip(0, 255).astype(np.uint8).reshape(count, -1)
        yield name, np.column_stack([labels, pixels]).tobytes()


def test_it_learns(tmp_path):
    write_archive(tmp_path / ARCHIVE, files=dict(textures(100)), count=100)
    config = {**CONFIG, "lr": 60.0, "batch_size": 32}
    learner = made(str(tmp_path), config=config, epochs=8, width=8)
    reports = [learner.step() for _ in range(8)]
    assert reports[-1]["val_accuracy"] > 0.9
    measured = learner.test()
    assert measured["test_accuracy"] > 0.9
    assert measured["images"] == 100


@pytest.fixture(scope="module")
def plain_reports(data_dir):
    learner = made(data_dir)
    return [learner.step() for _ in range(2)]


@pytest.mark.parametrize("name", CONFIG)
def test_each_searched_setting_changes_the_result(data_dir, plain_reports, name):
    value = 30 if name == "batch_size" else CONFIG[name] / 2
    changed = made(data_dir, config={**CONFIG, name: value})
    assert [changed.step() for _ in range(2)] != plain_reports


def test_searched_names_are_settings():
    assert (
        {*experiment().search.space}
        == {*CONFIG}
        <= {field.name for field in fields(Settings)}
    )


def test_whitening_gives_variance_1_and_stays(data_dir):
    learner = made(data_dir)
    x_NCHW = learner.normalise(learner.images_NCHW[:180])
    learner.model.learn_whitening(x_NCHW)
    with torch.no_grad():
        out = learner.model.whiten(x_NCHW - x_NCHW.mean((0, 2, 3), keepdim=True))
    out_PM = out.transpose(0, 1).flatten(1)
    assert (torch.cov(out_PM[:12]) - torch.eye(12)).abs().max() < 0.05
    assert torch.allclose(out_PM[:12], -out_PM[12:], atol=1e-5)
    before = learner.state_dict()["model"]["whiten.weight"].clone()
    learner.step()
    assert torch.equal(learner.model.whiten.weight, before)


def test_epoch_has_each_image_as_a_crop_that_is_mirrored_in_turn(data_dir):
    learner = made(data_dir, config={**CONFIG, "batch_size": 180})
    padded_NCHW = learner.padded_NHWC.permute(0, 3, 1, 2)
    sides = [{}, {}]
    for learner.epoch, is_mirrored in enumerate(sides):
        x_NCHW, labels_N = learner.augment_epoch()
        for x_CHW, label in zip(x_NCHW, labels_N, strict=True):
            # Random images differ in every pixel, so the middle tells which one this is
            middle = x_CHW[:, 15:17, 15:17].flatten()
            row, mirrored = find_crop(padded_NCHW, middle)
            padded_CHW = padded_NCHW[row].flip(2) if mirrored else padded_NCHW[row]
            crops = F.unfold(padded_CHW[None], 32)[0].T
            assert (crops == x_CHW.flatten()).all(1).any()
            assert learner.train_labels_N[row] == label
            is_mirrored[row] = mirrored
    assert sides[0].keys() == sides[1].keys() == set(range(180))
    assert all(sides[0][row] != sides[1][row] for row in range(180))
    assert 60 < sum(sides[0].values()) < 120


def find_crop(padded_NCHW, middle):
    """(row, whether mirrored) of the image that has these four pixels, or their mirror image."""
    # Where a crop's middle can be
    patches = F.unfold(padded_NCHW[:, :, 15:21, 15:21], 2)
    for mirrored in (False, True):
        pixels = middle.view(3, 2, 2).flip(2) if mirrored else middle.view(3, 2, 2)
        rows = (
            (patches == pixels.flatten()[None, :, None])
            .all(1)
            .any(1)
            .nonzero()
            .flatten()
        )
        if len(rows):
            return int(rows), mirrored
    raise AssertionError("no image has these pixels")


def test_decay_and_rates_are_those_of_1024_images(data_dir):
    settings = Settings(epochs=1, seed=0, lr=2.0, weight_decay=0.5, batch_size=512)
    model = made(data_dir).model
    slow, fast = cifar10_speednet.build_optimizer(model, settings).param_groups
    assert slow["lr"] == pytest.approx(2 * 0.15 / 1024)
    assert fast["lr"] == pytest.approx(64 * slow["lr"])
    for group in (slow, fast):
        assert group["lr"] * group["weight_decay"] == pytest.approx(
            0.5 * 0.15 * 512 / 1024
        )
    trained = [p for p in model.parameters() if p.requires_grad]
    assert len(slow["params"]) + len(fast["params"]) == len(trained)


def test_lookahead_moves_slow_weights_and_goes_on_from_them():
    slow = torch.tensor([1.0])
    present = torch.tensor([3.0])
    cifar10_speednet.look_ahead([slow], [present], keep=0.75)
    assert slow == present == 1.5


def test_wrong_use_is_refused(snapshot, data_dir):
    with snapshot.raises(UsageError):
        made(data_dir, world_size=2)
    with snapshot.raises(UsageError):
        made(data_dir, config={**CONFIG, "batch_size": 181})
    with pytest.raises(TypeError, match="lookahead_steps"):
        made(data_dir, lookahead_steps=5)


def test_missing_and_damaged_archives_are_refused(snapshot, tmp_path, monkeypatch):
    def fail(url, *_, **__):
        raise URLError("no route")

    monkeypatch.setattr(torch.hub, "download_url_to_file", fail)
    with snapshot.raises(DataError):
        made(str(tmp_path / "missing"))
    (tmp_path / ARCHIVE).write_bytes(b"not an archive")
    with snapshot.raises(DataError):
        made(str(tmp_path))


@pytest.mark.gpu
def test_it_trains_in_half_precision_and_resumes_on_a_gpu(data_dir):
    learner, restored = (made(data_dir, device="cuda") for _ in range(2))
    assert {p.dtype for p in learner.model.parameters()} == {torch.half, torch.float32}
    first = learner.step()
    restored.load_state_dict(learner.state_dict())
    second = learner.step()
    assert restored.step() == pytest.approx(second, rel=1e-2)
    assert second["train_loss"] < first["train_loss"]
