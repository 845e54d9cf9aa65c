"""An export of a network of the user's own: what it says, and when its code is imported."""

import json
import sys

import pytest
import torch
from handed import trained
from synthetic import read_document

import tuner
from tuner.errors import CheckpointError, SpecError, UsageError
from tuner.vision.export.read import read_export

CODE = """\
import torch
from torch import nn

print("imported", __name__)


class Net(nn.Module):
    def __init__(self, in_channels, num_classes, width=4):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, width, 3)
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(width, num_classes)
        self.register_buffer("scale", torch.tensor(2.0).sqrt(), persistent=False)

    def forward(self, x):
        return self.head(self.drop(self.conv(x).relu().mean((2, 3)))) * self.scale
"""


CUSTOM = {"model": "exported_net:Net", "model_args": {"width": 6}, "width": None}


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    folder = tmp_path_factory.mktemp("code")
    (folder / "exported_net.py").write_text(CODE)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield folder
    sys.modules.pop("exported_net", None)


@pytest.fixture(scope="module")
def results(module, tmp_path_factory):
    return trained(tmp_path_factory.mktemp("storage") / "own", **CUSTOM)


@pytest.fixture
def folder(results, tmp_path):
    return results.export(tmp_path / "out")


@pytest.fixture
def unimported(forget):
    forget("exported_net")


def test_load_model_without_trust_imports_nothing(results, tmp_path, unimported):
    folder = results.export(tmp_path / "out")
    with pytest.raises(UsageError) as refused:
        tuner.load_model(folder)
    assert f"load_model({str(folder)!r}, trust_code=True)" in str(refused.value)
    assert "the network exported_net:Net, whose code is not in it" in str(refused.value)
    assert "exported_net" not in sys.modules


def test_load_model_with_trust_rebuilds_the_model(module, tmp_path):
    results = trained(tmp_path / "own", **CUSTOM, dtype="float64")
    folder = results.export(tmp_path / "out")
    before = torch.random.get_rng_state()
    model = tuner.load_model(folder, trust_code=True)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert not model.training
    weights = read_export(folder).load_weights()
    assert all(
        torch.equal(value, weights[name]) for name, value in model.state_dict().items()
    )
    logits = model(torch.ones(3, 1, 8, 8, dtype=torch.float64))
    assert (logits.shape, logits.dtype) == ((3, 10), torch.float64)


def test_card_names_the_code_of_a_custom_network(folder):
    text = (folder / "README.md").read_text()
    assert "`exported_net:Net`" in text
    assert "trust_code=True" in text


@pytest.mark.parametrize(
    ("model", "error"),
    [
        ({"name": "os:system"}, SpecError),
        ({"name": "nothing"}, SpecError),
        ({"settings": {"model_args": {"width": 7}}}, CheckpointError),
        ({"settings": {"model_args": {"x": 7}}}, SpecError),
        ({"settings": {}}, SpecError),
    ],
)
def test_load_model_rejects_a_manipulated_config(folder, model, error, snapshot):
    config = read_document(folder / "config.json")
    config["model"] |= model
    (folder / "config.json").write_text(json.dumps(config))
    with snapshot.raises(error):
        tuner.load_model(folder, trust_code=True)
