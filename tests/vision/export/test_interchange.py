from types import SimpleNamespace

import numpy as np
import photos
import pytest
import torch
from handed import trained
from torch import nn

from tuner.errors import ExperimentError, UsageError
from tuner.vision.export import interchange
from tuner.vision.export.interchange import FILES, check_formats, write
from tuner.vision.export.predict import predict
from tuner.vision.export.read import load_image, read_export

SHAPE = (1, 8, 8)


def model():
    return nn.Sequential(nn.BatchNorm2d(1), nn.Flatten(), nn.Linear(8 * 8, 3)).eval()


def outputs(file, inputs_NCHW, before, after):
    """What a written model gives for these images."""
    if file.suffix == ".pt2":
        return torch.export.load(file).module()(torch.from_numpy(inputs_NCHW)).detach()
    import onnxruntime

    session = onnxruntime.InferenceSession(file)
    parts = [inputs_NCHW[:1], inputs_NCHW[1:]]  # a batch may have any size
    measured = [session.run([after], {before: part})[0] for part in parts]
    return torch.from_numpy(np.concatenate(measured))


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        ("onnx", "float64"),
        pytest.param("onnx-pixels", "float32", marks=pytest.mark.slow),
        ("torch-export", "float32"),
        ("torch-export-pixels", "float64"),
    ],
)
def test_formats_give_the_probabilities_of_predict(tmp_path, kind, dtype, data_home):
    if kind.startswith("onnx"):
        reason = "no test of it: pip install 'tuner[onnx]'"
        for package in ("onnxruntime", "onnxscript"):
            pytest.importorskip(package, reason=reason)
    folder = photos.write(tmp_path / "photos", each=40)
    recipe = {"dataset": f"folder:{folder}", "image_size": 12, "test_time_flip": True}
    recipe |= {"dtype": dtype, "vertical_flip": dtype == "float64"}
    export = tmp_path / "export"
    trained(tmp_path / "results/x", **recipe).export(export, formats=[kind])
    others = {"README.md", "config.json", "metrics.json", "model.safetensors"}
    written = {path.name for path in export.iterdir()} - others
    assert written == {FILES[kind]}  # with its weights
    files = sorted(str(path) for path in folder.rglob("*.jpg"))[:5]
    if kind.endswith("-pixels"):
        pixels_NHWC = np.stack(
            [read_export(export).read_pixels(each) for each in files]
        )
        inputs_NCHW = pixels_NHWC.transpose(0, 3, 1, 2)
        names = "pixels", "probabilities"
    else:
        images = [load_image(file, export).float() for file in files]
        inputs_NCHW = torch.cat(images).numpy()
        names = "images", "logits"
    outputs_NK = outputs(export / FILES[kind], inputs_NCHW, *names)
    if names[1] == "logits":
        outputs_NK = outputs_NK.softmax(1)
    rows = zip(outputs_NK.tolist(), predict(export, files), strict=True)
    for probabilities_K, expected in rows:
        measured = dict(zip(photos.CLASSES, probabilities_K, strict=True))
        assert measured == pytest.approx(dict(expected.top), abs=1e-5)


def test_write_is_silent_and_keeps_the_random_state(tmp_path, capfd, recwarn):
    original = model()
    before = torch.random.get_rng_state()
    write(original, "torch-export", tmp_path, shape=SHAPE)
    assert capfd.readouterr() == ("", "")
    assert not recwarn.list
    assert torch.equal(torch.random.get_rng_state(), before)


def test_write_rejects_a_file_with_other_logits(snapshot, tmp_path, monkeypatch):
    original = model()

    def read_back(computes):
        monkeypatch.setattr(
            torch.export, "load", lambda _: SimpleNamespace(module=lambda: computes)
        )

    read_back(lambda x_NCHW: original(x_NCHW) + 2e-4)
    with snapshot.raises(ExperimentError):
        write(original, "torch-export", tmp_path, shape=SHAPE)
    read_back(lambda x_NCHW: x_NCHW.sum() * torch.nan)
    with snapshot.raises(ExperimentError):
        write(original, "torch-export", tmp_path, shape=SHAPE)


def test_check_formats_names_missing_packages(snapshot, monkeypatch):
    installed = {"onnx": object()}
    monkeypatch.setattr(interchange, "find_spec", installed.get)
    with snapshot.raises(UsageError):
        check_formats(["torch-export", "onnx"])
    check_formats(["torch-export"])
