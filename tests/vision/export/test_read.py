"""An export as its receiver opens it."""

import pickle
import shutil
import sys

import pytest
import torch
from fresh import ran
from handed import trained
from PIL import Image
from safetensors.torch import load_file, save_file
from synthetic import change_document, read_document

import tuner
from tuner.errors import CheckpointError, DataError, SpecError, UsageError
from tuner.experiment.files import compute_sha256
from tuner.vision.batches import Batcher, load_image_set
from tuner.vision.catalog import DataChoice
from tuner.vision.export.evaluate import evaluate_export
from tuner.vision.export.read import AsMeasured, is_export, read_export
from tuner.vision.recipe import Augmentation
from tuner.vision.settings import ClassifierSettings


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("storage") / "digits", seed=5)


@pytest.fixture(scope="module")
def exported(digits, tmp_path_factory):
    return digits.export(tmp_path_factory.mktemp("export") / "model")


@pytest.fixture
def folder(exported, tmp_path):
    """An export to be damaged."""
    return shutil.copytree(exported, tmp_path / "model")


def change(folder, **changes):
    path = folder / "config.json"
    change_document(path, **changes)


def test_load_model_and_load_image_import_no_ray(exported, tmp_path):
    Image.new("L", (8, 8), 99).save(tmp_path / "a.png")
    code = (
        "import tuner\n"
        f"model = tuner.load_model({str(exported)!r})\n"
        f"x = tuner.load_image('a.png', {str(exported)!r})\n"
        "print(tuple(x.shape), x.dtype, x.is_contiguous(), tuple(model(x).shape))"
    )
    shown, modules = ran(code, cwd=tmp_path)
    assert shown.strip() == "(1, 1, 8, 8) torch.float32 True (1, 10)"
    assert "ray" not in modules


@pytest.mark.parametrize("flips", [[[3]], [[3], [2], [2, 3]]])
def test_load_model_gives_the_measured_logits_and_trains_as_the_network_alone(
    tmp_path, flips
):
    views = {"test_time_flip": True, "vertical_flip": [2] in flips}
    to = trained(tmp_path / "digits", **views).export(tmp_path / "out")
    export = read_export(to)
    x_NCHW = torch.randn(2, 1, 8, 8)
    assert export.config.input.mirrored
    assert export.config.input.upside_down == ([2] in flips)
    network = export.load_network()
    model = tuner.load_model(to)
    with torch.no_grad():
        logits = [network(x_NCHW.flip(axes)) for axes in [[], *flips]]
        mean_NK = sum(logits) / len(logits)
        assert not torch.allclose(mean_NK, logits[0])
        assert torch.equal(model(x_NCHW), mean_NK / export.temperature)
        copied = pickle.loads(pickle.dumps(model))
        assert torch.equal(copied(x_NCHW), model(x_NCHW))
        assert torch.equal(model.train()(x_NCHW), network.train()(x_NCHW))


def test_load_image_equals_a_batch_of_training(exported, tmp_path):
    images = load_image_set(DataChoice("digits"), torch.device("cpu"))
    pixels_HW = images.rows_NP[0].view(8, 8)
    Image.fromarray(pixels_HW.numpy()).save(tmp_path / "a.png")
    batcher = Batcher(images, dtype=torch.float32, augmentation=Augmentation())
    expected, _ = batcher.build_batch(torch.tensor([0]))
    with (tmp_path / "a.png").open("rb") as file:
        assert torch.equal(tuner.load_image(file, exported), expected)


def test_load_image_rejects_other_images(snapshot, exported, tmp_path):
    (tmp_path / "a.png").write_bytes(b"no image")
    with snapshot.raises(DataError):
        tuner.load_image(tmp_path / "a.png", exported)
    Image.new("RGB", (8, 8), "red").save(tmp_path / "a.png")
    with snapshot.raises(DataError):
        tuner.load_image(tmp_path / "a.png", exported)
    with snapshot.raises(UsageError):
        tuner.load_image(tmp_path / "a.png", tmp_path)


def test_config_has_the_seed_and_settings_but_no_paths(exported, tmp_path):
    config = read_document(exported / "config.json")
    assert (config["seed"], config["training"]["seed"]) == (5, 5)
    settings = {"data_dir": None, "start_from": str(exported), "dtype": "float64"}
    settings["pixel_stats"] = "imagenet"
    to = trained(tmp_path / "digits", **settings).export(tmp_path / "out")
    further = read_document(to / "config.json")
    assert "data_dir" not in further["training"]
    assert further["training"]["start_from"] == "model"
    assert str(exported.parent) not in (to / "config.json").read_text()
    assert further["input"]["dtype"] == "float64"
    assert further["input"]["mean"] == [pytest.approx(0.449)]
    assert tuner.load_model(to)(torch.ones(1, 1, 8, 8).double()).dtype == torch.float64
    assert ClassifierSettings(**config["training"] | config["config"]).width == 4


def test_load_model_of_missing_or_damaged_weights_raises(snapshot, folder):
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with snapshot.raises(CheckpointError):
        tuner.load_model(folder)
    path.write_bytes(b"torn")
    change(folder, weights_sha256=compute_sha256(path))
    with snapshot.raises(CheckpointError):
        tuner.load_model(folder)
    path.unlink()
    with snapshot.raises(CheckpointError):
        tuner.load_model(folder)
    path.symlink_to("/etc/passwd")
    with snapshot.raises(CheckpointError):
        tuner.load_model(folder)


def test_load_model_of_other_weights_raises(snapshot, folder):
    path = folder / "model.safetensors"
    weights = load_file(path)
    bias = weights.pop("head.bias")
    for wrong in ({**weights, "head.bias": torch.zeros(3)}, weights):
        save_file(wrong, path)
        change(folder, weights_sha256=compute_sha256(path))
        with snapshot.raises(CheckpointError):
            evaluate_export(read_export(folder))
    plan = read_document(folder / "config.json")["model"]
    save_file({**weights, "head.bias": bias}, path)
    # Refused before it is allocated
    huge = {**plan, "settings": {"width": 4096, "norm": "batch"}}
    change(folder, weights_sha256=compute_sha256(path), model=huge)
    with snapshot.raises(CheckpointError):
        tuner.load_model(folder)


@pytest.mark.parametrize(
    "text",
    ["{", "[" * 100_000, '{"format": 1}', '{"format": 2}'],
)
def test_load_model_of_a_damaged_config_raises(folder, text, snapshot):
    (folder / "config.json").write_text(text)
    assert is_export(folder)
    with snapshot.raises(UsageError, SpecError):
        tuner.load_model(folder)


def test_load_model_of_other_folder_names_its_kind(snapshot, digits, tmp_path):
    assert not is_export(tmp_path)
    with snapshot.raises(UsageError):
        tuner.load_model(tmp_path / "gone")
    assert not is_export(digits.folder)
    with snapshot.raises(UsageError):
        tuner.load_model(digits.folder)


def test_load_model_of_a_custom_learner_raises(snapshot, folder):
    """The class that a stranger's folder names is not imported."""
    change(folder, trainable="antigravity:Learner", model=None, input=None, data=None)
    with snapshot.raises(UsageError):
        tuner.load_model(folder)
    assert "antigravity" not in sys.modules


def test_weights_of_a_checkpoint_folder_raises(snapshot, folder):
    change(folder, trainable="mine:train", weights_sha256=None)
    with snapshot.raises(UsageError):
        read_export(folder).load_weights()


def test_a_network_without_views_takes_its_input_by_name():
    network = torch.nn.Linear(2, 3).eval()
    x_NF = torch.ones(1, 2)
    expected_NK = network(x_NF) / 2
    network.register_forward_hook(AsMeasured(False, False, 2.0))
    assert torch.equal(network(input=x_NF), expected_NK)
