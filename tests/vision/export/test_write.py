import json
import os

import pytest
import torch
from confirmed import FOUND, retrained, searched
from handed import encode_state, trained
from safetensors.torch import load_file
from synthetic import Writer, make_folder, read_document

from tuner.errors import CheckpointError, UsageError
from tuner.experiment.files import compute_sha256
from tuner.experiment.results.measured_tests import record_test
from tuner.experiment.results.results import Results
from tuner.vision.export.read import ExportConfig
from tuner.vision.export.write import export_model


def experiment(tmp_path, state):
    """An experiment whose first trial has the checkpoint `state` at epoch 2."""
    writer = Writer(make_folder(tmp_path / "digits"))
    trial_id = writer.trial(1, [0.5, 0.75], config={"lr": 0.1})
    writer.checkpoint(trial_id, 2, encode_state(state))
    writer.trial(2, [0.25])
    writer.end()
    return writer.results


SHA256 = {r"[0-9a-f]{64}": "SHA256"}
WEIGHT = torch.arange(12.0).reshape(3, 4)
MODEL = {"weight": WEIGHT, "tied": WEIGHT, "turned": WEIGHT.t(), "part": WEIGHT[1:, :2]}
MODEL["count"] = torch.tensor(7)


def test_export_holds_weights_config_and_metrics(snapshot, tmp_path):
    results = experiment(
        tmp_path, {"model": MODEL, "optimizer": {"m": torch.ones(3)}, "epoch": 2}
    )
    sha256 = results.best_checkpoint().sha256
    measured = {
        "trial_id": "00001",
        "checkpoint_sha256": sha256,
        "test_accuracy": 0.625,
    }
    record_test(results.folder, "00001", measured)
    to = export_model(results, tmp_path / "out/best")
    files = ["README.md", "config.json", "metrics.json", "model.safetensors"]
    assert sorted(os.listdir(to)) == files
    weights = load_file(to / "model.safetensors")
    assert weights.keys() == MODEL.keys()
    assert all(torch.equal(weights[name], MODEL[name]) for name in MODEL)
    config = read_document(to / "config.json")
    assert config.keys() == ExportConfig.model_fields.keys()
    snapshot(json.dumps(config, indent=1), SHA256)
    assert config["weights_sha256"] == compute_sha256(to / "model.safetensors")
    assert config["checkpoint_sha256"] == sha256
    snapshot((to / "metrics.json").read_text())
    assert os.listdir(tmp_path / "out") == ["best"]
    assert len({(to / name).stat().st_mode for name in os.listdir(to)}) == 1


def test_export_copies_a_checkpoint_folder(tmp_path, writer):
    trial_id = writer.trial(1, [0.5])
    path = writer.folder / "trials" / trial_id / "checkpoints/1"
    (path / "sub").mkdir(parents=True)
    (path / "sub/weights.bin").write_bytes(b"\x80weights")
    writer.journal_checkpoint(trial_id, 1, path)
    writer.end()
    to = export_model(writer.results, tmp_path / "out")
    assert (to / "checkpoint/sub/weights.bin").read_bytes() == b"\x80weights"
    assert not (to / "model.safetensors").exists()
    assert read_document(to / "config.json")["trial_id"] == "00001"


def test_export_to_a_used_target_raises_and_leaves_it(snapshot, tmp_path):
    results = experiment(tmp_path, {"model": MODEL})
    (tmp_path / "full").mkdir()
    (tmp_path / "full/mine").write_text("x")
    (tmp_path / "file").write_text("x")
    for name in ("full", "file"):
        with snapshot.raises(UsageError):
            export_model(results, tmp_path / name)
    assert os.listdir(tmp_path / "full") == ["mine"]


def test_export_that_fails_leaves_nothing(snapshot, tmp_path, monkeypatch):
    results = experiment(tmp_path, {"model": MODEL})

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tuner.vision.export.write._write_json", full)
    with snapshot.raises(UsageError):
        export_model(results, tmp_path / "out")
    assert os.listdir(tmp_path) == ["digits"]


@pytest.mark.parametrize(
    "state",
    [{"epoch": 3}, {"a": {"b": torch.ones(1)}, "a.b": torch.ones(1)}],
)
def test_export_of_an_unwritable_state_raises(tmp_path, state, snapshot):
    with snapshot.raises(CheckpointError):
        export_model(experiment(tmp_path, state), tmp_path / "out")


@pytest.fixture
def confirmed(tmp_path):
    """A search whose leader by its mean is another than its best; with real weights of both."""
    search = searched(tmp_path / "digits", FOUND)
    results = retrained(search, [[0.88, 0.90], [0.91, 0.94]])
    for folder, trial_id in ((search.folder, "00001"), (results.folder, "00003")):
        writer = Writer(folder, resumed=True)
        state = {"model": {"of": torch.tensor(int(trial_id))}}
        writer.checkpoint(trial_id, 2, encode_state(state))
        writer.end()
    return Results(search.folder)


def test_export_prefers_the_confirmed_model(confirmed, tmp_path):
    to = confirmed.export(tmp_path / "best")
    assert load_file(to / "model.safetensors")["of"] == 3
    config = read_document(to / "config.json")
    assert (config["experiment"], config["trial_id"]) == ("digits-confirm", "00003")
    assert config["search"]["experiment"] == "digits"
    metrics = read_document(to / "metrics.json")
    assert metrics["confirmed"]["mean"] == pytest.approx(0.925)
    chosen = confirmed.export(tmp_path / "chosen", trial_id="1")
    assert load_file(chosen / "model.safetensors")["of"] == 1
    assert read_document(chosen / "metrics.json")["confirmed"] is None


def test_export_describes_the_shipped_classifier(snapshot, tmp_path):
    results = trained(tmp_path / "digits", seed=7, data_dir=None)
    config = read_document(results.export(tmp_path / "out") / "config.json")
    del config["calibration"]  # whose last digits depend on the machine
    snapshot(json.dumps(config, indent=1), SHA256)


def test_export_in_a_format_rejects_custom_trainables(snapshot, tmp_path):
    results = experiment(tmp_path, {"model": MODEL})
    with snapshot.raises(UsageError):
        export_model(results, tmp_path / "out", formats=["onnx"])
    assert not (tmp_path / "out").exists()
