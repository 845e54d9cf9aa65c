"""A user's own images and code, on nodes that have neither."""

import subprocess
import sys
from pathlib import Path

import photos
import pytest
import real_nodes
from far_search import ended

from tuner.experiment.results.results import Results

pytestmark = pytest.mark.nodes

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
    """Two nodes of 2 CPUs, each with a data folder of its own."""
    with real_nodes.cluster() as made:
        for number in (1, 2):
            made.start(number, data=made.folder / f"data{number}")
            made.await_nodes(number)
        yield made


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


def test_code_of_a_script_goes_to_every_node(cluster, tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    command = ("script.py", cluster.head, tmp_path / "results")
    code, _, said = ended(start(cluster, tmp_path, *command, at=cluster.enter(1)))
    assert code == 0, said
    for name in ("train", "Counts"):
        results = Results(tmp_path / "results" / name)
        assert results.counts["completed"] == 4, said
        reports = [trial.results[-1].metrics for trial in results.trials.values()]
        assert [report["loss"] for report in reports] == [1.5, 3, 4.5, 6]
        assert len({report["node"] for report in reports}) == 2


def test_images_are_decoded_once_and_each_node_gets_a_copy(cluster, tmp_path):
    photos.write(tmp_path / "photos", each=30)
    command = ("-m", "tuner", "run", "folder:photos", "training.model=cnn", "--num-samples", "4")
    options = ("scheduler.max_t=1", "--cpus", "2", "--address", cluster.head, "--no-evaluate")
    at = cluster.outside() if cluster.namespaces else ()
    search = start(cluster, tmp_path, *command, *options, at=at)
    code, out, said = ended(search)
    assert code == 0, said
    assert Results(tmp_path / "results" / "photos").counts["completed"] == 4, out
    [decoded] = (tmp_path / "data" / "decoded").glob("photos-*")
    for number in (1, 2):
        [copy] = (cluster.folder / f"data{number}" / "decoded").glob("photos-*")
        assert copy.name == decoded.name
        arrays = {path.name: path.read_bytes() for path in decoded.glob("*.npy")}
        assert arrays
        assert {path.name: path.read_bytes() for path in copy.glob("*.npy")} == arrays
