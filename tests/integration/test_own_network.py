"""A search over the arguments of the user's own network, from a YAML file in another folder."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch
from driven import call

import tuner
from tuner.experiment.results.results import Results

CODE = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, in_channels, num_classes, width=4, dropout=0.0):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, width, 3, padding=1)
        self.norm = nn.GroupNorm(2, width)
        self.drop = nn.Dropout(dropout)
        self.head = nn.LazyLinear(num_classes)
        self.aside = nn.Linear(2, 2)  # nothing uses it

    def forward(self, x):
        x = nn.functional.max_pool2d(self.norm(self.conv(x)).relu(), 4)
        return self.head(self.drop(x.view(x.size(0), -1)))
"""
SPEC = """\
training: {model: their_net:Net, dataset: digits, model_args: {dropout: 0.2}, batch_size: 64}
search:
  strategy: grid
  space:
    lr: 0.1
    model_args: {width: "choice([4, 8])"}
scheduler: none
objective: {metric: val_accuracy, mode: max}
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "their_net.py").write_text(CODE)
    (folder / "search.yaml").write_text(SPEC)
    yield folder / "search.yaml"
    sys.modules.pop("their_net", None)


@pytest.mark.slow
def test_it_is_searched_exported_and_loaded(
    ray_here: None, spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = "no test of it: pip install 'tuner[onnx]'"
    onnxruntime = pytest.importorskip("onnxruntime", reason=reason)
    monkeypatch.chdir(tmp_path)
    storage = ["--storage", str(tmp_path / "results")]
    done = call("run", str(spec), *storage, "--name", "own", "training.epochs=3")
    assert done.return_value == 0, done.output
    results = Results(tmp_path / "results" / "own")
    configs = [trial.config["model_args"] for trial in results.trials.values()]
    assert configs == [{"width": 4}, {"width": 8}]
    assert results.get_best_trial().results[-1].metrics["val_accuracy"] > 0.5
    assert "config/model_args/width" in results.dataframe().columns

    done = call("export", "own", *storage, "--to", "model", "--format", "onnx")
    assert done.return_value == 0, done.output
    config = json.loads(Path("model/config.json").read_text())["model"]
    best = results.get_best_trial().config["model_args"]["width"]
    assert config["settings"] == {"model_args": {"dropout": 0.2, "width": best}}
    x_NCHW = torch.rand(3, 1, 8, 8)
    with torch.no_grad():
        logits_NK = tuner.load_model("model", trust_code=True)(x_NCHW)
    run = onnxruntime.InferenceSession("model/model.onnx").run
    assert abs(run(None, {"images": x_NCHW.numpy()})[0] - logits_NK.numpy()).max() < 1e-4

    more = ["--workers", "2", "training.epochs=1", "search.space.model_args.width=choice([6])"]
    done = call("run", str(spec), *storage, "--name", "two", *more)
    assert done.return_value == 0, done.output
    [trial] = Results(tmp_path / "results" / "two").trials.values()
    assert (trial.config["model_args"], trial.status) == ({"width": 6}, "completed")
