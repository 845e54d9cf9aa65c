"""Known weights, and their download from a server of this machine."""

import hashlib
import os
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import torch
from own_networks import import_torchvision

from tuner.errors import CheckpointError, DataError
from tuner.vision.models._foreign import NETWORKS
from tuner.vision.models._torchvisions import build_network
from tuner.vision.weights import (
    WEIGHTS,
    NeededWeights,
    Weights,
    choose_weights,
    fetch,
    find_hub_folder,
    find_weights,
)

CONTENT = bytes(range(256)) * 4000
TINY = Weights("tiny", hashlib.sha256(CONTENT).hexdigest()[:8], 0.977, 1)


class Handler(BaseHTTPRequestHandler):
    """Answers with the server's `content` as `length` bytes; `held` back is the second half."""

    def do_GET(self):
        content = self.server.content
        half = len(self.server.content) // 2
        self.server.paths.append(self.path)
        self.send_response(200 if content else 503)
        self.send_header("Content-Length", str(self.server.length or len(content)))
        self.end_headers()
        self.wfile.write(content[:half])
        self.server.held.wait(60)
        self.wfile.write(content[half:])

    def log_message(self, *arguments):
        """Says nothing."""


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.content = CONTENT
        server.length = None
        server.paths = []
        server.held = threading.Event()
        server.held.set()
        server.url = f"http://127.0.0.1:{server.server_port}/models"
        threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        yield server
        server.held.set()
        server.shutdown()


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    return tmp_path / "hub/checkpoints"


def files(folder):
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


@pytest.mark.parametrize(
    "environment",
    [
        {"TORCH_HOME": "~/torch"},
        {"TORCH_HOME": None},
        {"TORCH_HOME": None, "XDG_CACHE_HOME": None},
    ],
)
def test_hub_folder_is_torchs(environment, monkeypatch):
    for name, value in environment.items():
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name)
    assert str(find_hub_folder()) == f"{torch.hub.get_dir()}/checkpoints"


def test_known_weights_include_those_of_networks_that_ship():
    for name in NETWORKS:
        weights = choose_weights(f"torchvision:{name}")
        with torch.device("meta"):
            built = build_network(name, 1000)
        assert sum(p.numel() for p in built.parameters()) == weights.parameters
        assert 4 < weights.size_mib * 2**20 / weights.parameters < 4.1


def test_known_weights_are_described_as_by_torchvision():
    models = import_torchvision().models
    for weights in WEIGHTS:
        if weights.package:
            continue
        theirs = models.get_model_weights(weights.model.removeprefix("torchvision:"))
        member = (
            theirs.IMAGENET1K_V1 if weights.name.endswith("-v1") else theirs.DEFAULT
        )
        row = weights.build_row()
        transforms = member.transforms()
        assert member.url == row["source"]
        assert member.meta["_file_size"] == row["size_mib"]
        assert member.meta["num_params"] == row["parameters"]
        ours = weights.preprocessing
        sizes = [*transforms.resize_size, *transforms.crop_size]
        assert sizes == [ours.resize, ours.crop]
        assert transforms.interpolation.value == ours.interpolation
        assert tuple(transforms.mean) == ours.mean
        assert tuple(transforms.std) == ours.std


def test_weights_of_prefers_a_file_that_is_here(folder):
    assert choose_weights("torchvision:resnet50").name == "resnet50"
    older = find_weights("resnet50-v1")
    folder.mkdir(parents=True)
    older.path.touch()
    assert choose_weights("torchvision:resnet50") == older
    assert choose_weights("torchvision:resnet101") is None
    for each in (find_weights("resnet50"), older):
        assert choose_weights("torchvision:resnet50", f"{each.sha256}00") == each


def test_fetch_replaces_a_damaged_file_and_downloads_once(server, folder):
    folder.mkdir(parents=True)
    TINY.path.write_bytes(CONTENT[:-1])
    path = fetch(TINY, source=f"{server.url}/")
    assert path == folder / TINY.file
    assert path.read_bytes() == CONTENT
    assert fetch(TINY, source=server.url) == path
    assert server.paths == [f"/models/{TINY.file}"]
    assert files(folder) == [TINY.file]


@pytest.mark.parametrize(
    ("content", "length"),
    [
        (b"<html>please log in</html>", None),
        (CONTENT[:-9], len(CONTENT)),
        (bytes(9 << 20), None),
    ],
    ids=["other", "incomplete", "far more"],
)
def test_fetch_of_other_content_keeps_nothing(
    snapshot, server, folder, content, length
):
    server.content = content
    server.length = length
    with snapshot.raises(CheckpointError):
        fetch(TINY, source=server.url)
    assert files(folder) == []


@pytest.mark.parametrize("source", ["http://127.0.0.1:9", "file:///nowhere", "x"])
def test_fetch_without_a_server_names_source_and_path(source, folder):
    text = f"from {source}/{TINY.file} to {folder / TINY.file}: "
    with pytest.raises(CheckpointError, match=f"tiny cannot be downloaded {text}"):
        fetch(TINY, source=source)


def test_fetch_after_a_killed_download_starts_anew(server, folder):
    server.held.clear()
    code = f"from tuner.vision.weights import *; fetch({TINY!r}, source={server.url!r})"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen([sys.executable, "-c", code], env=environment)
    while not server.paths:
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert TINY.file not in files(folder)
    server.held.set()
    assert fetch(TINY, source=server.url).read_bytes() == CONTENT
    assert files(folder) == [TINY.file]


@pytest.mark.parametrize("name", ["weights.pt", "export/model.safetensors"])
def test_weights_go_to_the_same_path_of_another_node(snapshot, name, tmp_path):
    path = tmp_path / name
    source = tmp_path / path.relative_to(tmp_path).parts[0]
    path.parent.mkdir(exist_ok=True)
    (path.parent / "config.json").write_text("{}")
    path.write_bytes(CONTENT)
    needed = NeededWeights(source=str(source))
    assert needed.state() == (True, False)
    contents = [array.copy() for array in needed.load()]
    path.unlink()
    assert needed.state() == (False, True)
    needed.receive(contents)
    assert path.read_bytes() == CONTENT
    path.unlink()
    with snapshot.raises(DataError):
        needed.download()
