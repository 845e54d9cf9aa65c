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


def model(dtype=torch.float32):
    return (
        nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten())
        .append(nn.Linear(4 * 6 * 6, 3))
        .to(dtype)
        .eval()
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_onnx_equals_the_model_for_any_batch_size(tmp_path, dtype):
    reason = "no test of it: pip install 'tuner[onnx]'"
    onnxruntime = pytest.importorskip("onnxruntime", reason=reason)
    pytest.importorskip("onnxscript", reason=reason)
    original = model(dtype)
    path = write(original, "onnx", tmp_path, shape=SHAPE)
    assert path == tmp_path / "model.onnx"
    assert [file.name for file in tmp_path.iterdir()] == ["model.onnx"]  # weights and all
    session = onnxruntime.InferenceSession(path)
    for count in (1, 7):
        x = torch.randn(count, *SHAPE, dtype=dtype)
        (logits,) = session.run(["logits"], {"images": x.float().numpy()})
        assert torch.allclose(torch.tensor(logits), original(x).float(), atol=1e-5)


def outputs(file, inputs_NCHW, before, after):
    """What a written model gives for these images."""
    if file.suffix == ".pt2":
        return torch.export.load(file).module()(torch.from_numpy(inputs_NCHW)).detach()
    import onnxruntime

    (measured_NK,) = onnxruntime.InferenceSession(file).run([after], {before: inputs_NCHW})
    return torch.from_numpy(measured_NK)


@pytest.mark.parametrize("kind", ["onnx", "torch-export"])
def test_formats_give_the_probabilities_of_predict(tmp_path, kind, monkeypatch):
    if kind == "onnx":
        pytest.importorskip("onnxscript", reason="no test of it: pip install 'tuner[onnx]'")
    monkeypatch.setenv("TUNER_DATA", str(tmp_path / "data"))
    folder = photos.write(tmp_path / "photos", each=40)
    recipe = {"dataset": f"folder:{folder}", "image_size": 12, "test_time_flip": True}
    export, formats = tmp_path / "export", [kind, f"{kind}-pixels"]
    trained(tmp_path / "results" / "x", **recipe).export(export, formats=formats)
    files = sorted(str(path) for path in folder.rglob("*.jpg"))[:5]
    pixels_NHWC = np.stack([read_export(export).pixels(file) for file in files])
    images_NCHW = torch.cat([load_image(file, export) for file in files]).numpy()
    logits_NK = outputs(export / FILES[kind], images_NCHW, "images", "logits")
    pixels_NCHW = pixels_NHWC.transpose(0, 3, 1, 2)
    from_pixels_NK = outputs(
        export / FILES[f"{kind}-pixels"], pixels_NCHW, "pixels", "probabilities"
    )
    for probabilities_NK in (logits_NK.softmax(1), from_pixels_NK):
        rows = zip(probabilities_NK.tolist(), predict(export, files), strict=True)
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
