"""The test split, measured once, with a Learner whose accuracy is in its state."""

import json

import pytest
import torch
from handed import encode_state
from synthetic import Writer, make_folder, read_document

from tuner.errors import CheckpointError, UsageError
from tuner.experiment.results.results import Results
from tuner.vision.export.evaluate import evaluate, evaluate_export
from tuner.vision.export.read import read_export

measured = []  # the config, the constants and the loaded state of each Learner


class Tested:
    __test__ = False  # for pytest: it is no test

    def __init__(self, config, constants, *, device, rank, world_size):
        measured.append([config, constants])

    def step(self):
        raise AssertionError("an evaluation trains nothing")

    def state_dict(self):
        return {"accuracy": -1.0, "bias": torch.ones(1)}

    def load_state_dict(self, state):
        self.accuracy = state["accuracy"]
        self.bias = state.get("bias", torch.zeros(1))
        measured[-1].append(state)

    def test(self):
        return {
            "test_loss": torch.tensor(0.25) + self.bias,
            "test_accuracy": self.accuracy,
        }


EXAMINED = {
    "doubtful_labels": [{"file": "a.jpg"}],
    "doubtful_share": 0.5,
    "learning_curve": [{"images": 8, "errors": 0.1}],
}


class Doubtful(Tested):
    def examine_images(self):
        return EXAMINED


class Untested(Tested):
    test = None


class Choosy(Tested):
    def load_state_dict(self, state):
        state["width"]


class Narrow(Tested):
    def load_state_dict(self, state):
        raise RuntimeError("size\n\tof bias")


def train(config):
    pass


@pytest.fixture
def folder(tmp_path):
    measured.clear()
    folder = make_folder(
        tmp_path / "digits", trainable=f"{__name__}:Tested", training={"width": 8}
    )
    writer = Writer(folder)
    for number, values in ((1, [0.5, 0.4]), (2, [0.6, 0.9, 0.8])):
        trial_id = writer.trial(number, values)
        for epoch, accuracy in enumerate(values, start=1):
            state = {"accuracy": accuracy, "bias": torch.zeros(1)}
            writer.checkpoint(trial_id, epoch, encode_state(state))
    writer.end()
    return folder


def changed(folder, **spec):
    """The results of the experiment with these changes of its spec."""
    path = folder / "experiment.json"
    document = read_document(path)
    document["spec"] |= spec
    path.write_text(json.dumps(document))
    return Results(folder)


def test_evaluate_measures_the_best_checkpoint_once(folder):
    results = Results(folder)
    first = evaluate(results)
    assert first == {
        "trial_id": "00002",
        "epoch": 2,
        "checkpoint_sha256": results.best_checkpoint().sha256,
        "test_loss": 0.25,
        "test_accuracy": 0.9,
    }
    [[config, constants, state]] = measured
    assert (config, state["accuracy"]) == ({"lr": 0.01}, 0.9)
    assert constants == {"epochs": 10, "seed": 1, "width": 8}
    assert evaluate(Results(folder)) == first
    assert len(measured) == 1
    path = folder / "trials/00002/test.json"
    assert read_document(path) == first


def test_evaluate_examines_images_on_request_alone(folder):
    results = changed(folder, trainable=f"{__name__}:Doubtful")
    first = evaluate(results)
    assert "doubtful_labels" not in first
    labelled = {**first, **EXAMINED}
    assert evaluate(results, labels=True) == labelled
    for labels in (True, False):
        assert evaluate(results, labels=labels) == labelled  # recorded
    assert len(measured) == 2
    assert len(measured[1]) == 2  # the second Learner needs no checkpoint


@pytest.mark.parametrize("name", ["Untested", "train"])
def test_evaluate_without_method_test_raises(snapshot, folder, name):
    results = changed(folder, trainable=f"{__name__}:{name}")
    with snapshot.raises(UsageError):
        evaluate(results)


@pytest.mark.parametrize(
    ("trainable", "error"),
    [
        ("no_such_module:Learner", UsageError),
        (f"{__name__}:Choosy", CheckpointError),
        (f"{__name__}:Narrow", CheckpointError),
    ],
)
def test_evaluate_of_other_trainable_names_fault(folder, trainable, error, snapshot):
    with snapshot.raises(error):
        evaluate(changed(folder, trainable=trainable))


def test_evaluate_passes_trial_and_data_dir(folder):
    assert evaluate(Results(folder), "1", data_dir="/data")["test_accuracy"] == 0.5
    assert measured[0][1] == {"epochs": 10, "seed": 1, "width": 8, "data_dir": "/data"}


def test_evaluate_export_of_a_custom_learner_loads_its_tensors(
    snapshot, folder, tmp_path
):
    """Its tensors are those of the export, all else is a new Learner's."""
    export = read_export(Results(folder).export(tmp_path / "out"))
    result = evaluate_export(export, data_dir="/data")
    assert (result["trial_id"], result["test_loss"], result["test_accuracy"]) == (
        "00002",
        0.25,
        -1.0,
    )
    [[config, constants, state]] = measured
    assert (config, constants["data_dir"]) == ({"lr": 0.01}, "/data")
    assert state["bias"] == 0
    export.config.__dict__["trainable"] = f"{__name__}:Untested"
    with snapshot.raises(UsageError):
        evaluate_export(export)
