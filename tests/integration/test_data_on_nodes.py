"""What real nodes get, each with a data folder of its own: data sets, images, and code."""

import json
import subprocess
import sys
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import photos
import pytest
import real_nodes
from cifar10_archives import write_archive
from far_search import ended

from tuner.experiment.results.results import Results
from tuner.vision.datasets.cifar10 import ARCHIVE

pytestmark = pytest.mark.nodes

PATIENCE_S = 120
COUNT = 1000  # images of a file: 18 MB in all, which is several chunks
ROOT = Path(__file__).parents[2]
SCRIPT = """
import sys
import ray
from ray import tune
import tuner

FACTOR = 3


class Counts(tune.Trainable):
    def setup(self, config):
        self.counted = 0

    def step(self):
        self.counted += 1
        return {"loss": FACTOR * self.config["x"] / self.counted, "node": node()}

    def save_checkpoint(self, checkpoint_dir):
        return {"counted": self.counted}

    def load_checkpoint(self, checkpoint):
        self.counted = checkpoint["counted"]


def node():
    return float(ray.util.get_node_ip_address().rpartition(".")[2])


def train(config):
    for epoch in range(1, 3):
        tune.report({"loss": FACTOR * config["x"] / epoch, "node": node()})


ray.init(address=sys.argv[1])
for trainable in (train, Counts):
    spec = tuner.ExperimentSpec(
        name=trainable.__name__,
        trainable=trainable,
        search={"strategy": "grid", "space": {"x": "grid_search([1.0, 2.0, 3.0, 4.0])"}},
        objective={"metric": "loss"},
        scheduler={"max_t": 2, "grace_period": 2},
        resources={"cpus": 2},
        storage=sys.argv[2],
    )
    tuner.run_experiment(spec)
"""


@pytest.fixture(scope="module")
def cluster():
    """Three nodes that train, each with a data folder of its own."""
    with real_nodes.cluster() as made:
        for count, numbers in ((1, (1,)), (3, (2, 3))):
            for number in numbers:
                made.start(number, data=made.folder / f"data{number}")
            made.await_nodes(count)
        yield made


@contextmanager
def served(folder, address):
    """The URL of `folder`, and the requests that came."""
    requests = []

    class Counting(SimpleHTTPRequestHandler):
        def log_request(self, *details):
            requests.append(self.path)

    server = ThreadingHTTPServer((address, 0), partial(Counting, directory=folder))
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://{address}:{server.server_port}", requests
    finally:
        server.shutdown()


def driver(cluster, source, url, *, data, joining=0):
    """A process that brings the archive to all, if it can be from a machine that is no node.

    What it prints is read line by line.
    """
    fields = {"md5": source.md5, "images_a_file": COUNT, "url": f"{url}/{ARCHIVE}"}
    script = Path(__file__).parent / "supplied.py"
    return subprocess.Popen(
        [
            *(cluster.outside() if cluster.namespaces else ()),
            sys.executable,
            script,
            cluster.head,
            json.dumps(fields),
            str(joining),
        ],
        env={**cluster.foreign, **cluster.environment, "TUNER_DATA": str(data)},
        stdout=subprocess.PIPE,
        text=True,
    )


def messages_of(process):
    """Its lines up to `ready`."""
    lines = []
    for line in process.stdout:
        if line.strip() == "ready":
            return lines
        lines.append(line.strip())
    pytest.fail(f"it ended with {process.wait()} after {lines}")


def test_dataset_is_downloaded_once_and_copied_between_nodes(cluster, tmp_path):
    source = write_archive(tmp_path / "remote" / ARCHIVE, count=COUNT)
    with served(tmp_path / "remote", cluster.here) as (url, requests):
        process = driver(cluster, source, url, data=tmp_path / "mine", joining=1)
        lines = messages_of(process)
        assert len(lines) == 2, lines
        assert lines[0].startswith("CIFAR-10 is on no node: ")
        assert lines[1].endswith(" to 2 nodes that lack it")
        cluster.start(4, data=cluster.folder / "data4")
        out, _ = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0
        [(kept, digest), *others] = json.loads(out)
        assert kept
        assert others == [[True, digest]] * 3
        assert requests == [f"/{ARCHIVE}"]
        assert not (tmp_path / "mine" / ARCHIVE).exists()
        again = driver(cluster, source, url, data=tmp_path / "mine")
        assert messages_of(again) == []
        assert again.wait(PATIENCE_S) == 0
        assert len(requests) == 1


def start(cluster, working, *command, at=()):
    """A process of python on the machine that `at` enters."""
    return subprocess.Popen(
        [*at, sys.executable, *map(str, command)],
        cwd=working,
        env={
            **cluster.foreign,
            **cluster.environment,
            "PYTHONPATH": str(ROOT),
            "TUNER_DATA": str(working / "data"),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_script_code_is_sent_to_every_node(cluster, tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    command = ("script.py", cluster.head, tmp_path / "results")
    code, _, messages = ended(start(cluster, tmp_path, *command, at=cluster.enter(1)))
    assert code == 0, messages
    for name in ("train", "Counts"):
        results = Results(tmp_path / "results" / name)
        assert results.counts["completed"] == 4, messages
        reports = [trial.results[-1].metrics for trial in results.trials.values()]
        assert [report["loss"] for report in reports] == [1.5, 3, 4.5, 6]
        assert len({report["node"] for report in reports}) > 1


def test_images_are_decoded_once_and_copied_to_nodes(cluster, tmp_path):
    photos.write(tmp_path / "photos", each=30)
    command = (
        "-m",
        "tuner",
        "run",
        "folder:photos",
        "training.model=cnn",
        "--num-samples",
        "4",
    )
    options = (
        "scheduler.max_t=1",
        "--cpus",
        "2",
        "--address",
        cluster.head,
        "--no-evaluate",
    )
    at = cluster.outside() if cluster.namespaces else ()
    search = start(cluster, tmp_path, *command, *options, at=at)
    code, out, messages = ended(search)
    assert code == 0, messages
    assert Results(tmp_path / "results/photos").counts["completed"] == 4, out
    [decoded] = (tmp_path / "data/decoded").glob("photos-*")
    for number in (1, 2):
        [copy] = (cluster.folder / f"data{number}/decoded").glob("photos-*")
        assert copy.name == decoded.name
        arrays = {path.name: path.read_bytes() for path in decoded.glob("*.npy")}
        assert arrays
        assert {path.name: path.read_bytes() for path in copy.glob("*.npy")} == arrays
