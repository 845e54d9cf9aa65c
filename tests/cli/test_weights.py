"""tuner weights: what is here, and what a download says."""

import json

import pytest
from commands import call

from tuner.errors import CheckpointError, UsageError
from tuner.vision.weights import SOURCE, WEIGHTS, weights_named


@pytest.fixture(autouse=True)
def hub(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    folder = tmp_path / "hub" / "checkpoints"
    folder.mkdir(parents=True)
    return folder


def test_weights_ls_shows_what_is_here(hub):
    weights_named("resnet18").path.touch()
    done = call("weights", "ls")
    status = {row.split()[0]: row.endswith(" here") for row in done.stdout.splitlines()[1:]}
    assert status == {each.name: each.name == "resnet18" for each in WEIGHTS}
    assert f"folder: {hub}\nsource: {SOURCE}\nlicence: BSD-3-Clause" in done.stderr


def test_weights_ls_json_has_source_licence_and_preprocessing(hub):
    rows = {row["name"]: row for row in json.loads(call("weights", "ls", "--json").stdout)}
    row = rows["resnet50"]
    assert row["model"] == "torchvision:resnet50"
    assert row["source"] == f"{SOURCE}/resnet50-11ad3fa6.pth"
    assert row["path"] == str(hub / "resnet50-11ad3fa6.pth")
    assert row["preprocessing"]["resize"] == 232
    assert row["licence"].startswith("BSD-3-Clause")
    assert row["here"] is False


def test_weights_fetch_announces_and_verifies(hub, tmp_path):
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    (mirror / "resnet18-f37072fd.pth").write_bytes(b"x")
    done = call("weights", "fetch", "resnet18", "--source", mirror.as_uri())
    assert done.stderr.startswith("downloading resnet18-f37072fd.pth, 44.7 MiB, from file:")
    assert isinstance(done.exception, CheckpointError)
    assert "nothing was kept" in str(done.exception)
    assert isinstance(call("weights", "fetch", "alexnet").exception, UsageError)
