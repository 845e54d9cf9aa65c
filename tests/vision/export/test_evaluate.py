"""The test split, measured once, with a Learner that is as good as its state says."""

import json
import os
from pathlib import Path

import pytest
import torch
from synthetic import Writer, make_folder

from tuner.errors import CheckpointError, NoUsableTrialError, UsageError
from tuner.experiment.results.results import Results
from tuner.trial import gpus
from tuner.vision.export.evaluate import can_evaluate, evaluate, evaluate_export
from tuner.vision.export.read import read_export

measured = []  # what each Learner was built with, and the state that it was given


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
        return {"test_loss": torch.tensor(0.25) + self.bias, "test_accuracy": self.accuracy}


class Untested(Tested):
    test = None


class Choosy(Tested):
    def load_state_dict(self, state):
        state["width"]


class Opener(Tested):
    def __init__(self, config, constants, **where):
        Path("no/such/file").read_text()


class Narrow(Tested):
    def load_state_dict(self, state):
        raise RuntimeError("size\n\tof bias")


def train(config):
    pass


@pytest.fixture
def folder(tmp_path):
    measured.clear()
    folder = make_folder(tmp_path / "digits", trainable=f"{__name__}:Tested", training={"width": 8})
    writer = Writer(folder)
    for number, values in ((1, [0.5, 0.4]), (2, [0.6, 0.9, 0.8])):
        trial_id = writer.trial(number, values)
        for epoch, accuracy in enumerate(values, start=1):
            path = folder / "trials" / trial_id / "checkpoints" / str(epoch) / "state.pt"
            path.parent.mkdir(parents=True)
            torch.save({"accuracy": accuracy, "bias": torch.zeros(1)}, path)
            writer.journal_checkpoint(trial_id, epoch, path)
    writer.end()
    return folder


def naming(folder, trainable):
    """The results of the experiment, whose spec now names this trainable."""
    path = folder / "experiment.json"
    document = json.loads(path.read_text())
    document["spec"]["trainable"] = trainable
    path.write_text(json.dumps(document))
    return Results(folder)


def test_the_best_checkpoint_of_the_best_trial_is_measured(folder):
    results = Results(folder)
    found = evaluate(results)
    assert found == {
        "trial_id": "00002",
        "epoch": 2,
        "checkpoint_sha256": results.best_checkpoint().sha256,
        "test_loss": 0.25,
        "test_accuracy": 0.9,
    }
    [[config, constants, state]] = measured
    assert config == {"lr": 0.01}
    assert constants == {"epochs": 10, "seed": 1, "width": 8}
    assert state["accuracy"] == 0.9


def test_evaluate_measures_a_trial_once(folder):
    first = evaluate(Results(folder))
    assert evaluate(Results(folder)) == first
    assert len(measured) == 1
    assert json.loads((folder / "trials" / "00002" / "test.json").read_text()) == first


def test_where_searches_share_gpus_it_takes_one_as_a_trial_does(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(gpus, "_held", {})
    monkeypatch.setenv(gpus.VISIBLE, "0,GPU-5")
    for name, value in gpus.sharing(tmp_path / "gpus", ["GPU-5"]).items():
        monkeypatch.setenv(name, value)
    path = folder / "experiment.json"
    document = json.loads(path.read_text())
    document["spec"]["resources"] = {"gpus": 1}
    path.write_text(json.dumps(document))
    evaluate(Results(folder))
    assert os.environ[gpus.VISIBLE] == "GPU-5"
    [file] = gpus._held.values()
    file.close()


def test_evaluate_of_another_trial_measures_that_trial(folder):
    assert evaluate(Results(folder), "1")["test_accuracy"] == 0.5
    assert not (folder / "trials" / "00002" / "test.json").exists()


def test_a_record_with_more_than_numbers_does_not_count(folder):
    evaluate(Results(folder))
    path = folder / "trials" / "00002" / "test.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "test_loss": ["x"]}))
    assert evaluate(Results(folder))["test_loss"] == 0.25


def test_a_damaged_checkpoint_is_not_measured(folder):
    Results(folder).best_checkpoint().path.write_bytes(b"torn")
    with pytest.raises(CheckpointError, match="is not what was written"):
        evaluate(Results(folder))


@pytest.mark.parametrize("name", ["Untested", "train"])
def test_what_cannot_test_is_told(folder, name):
    results = naming(folder, f"{__name__}:{name}")
    assert not can_evaluate(results.spec)
    with pytest.raises(UsageError, match=r"has no method test\(\)"):
        evaluate(results)


def test_what_cannot_be_imported_or_does_not_fit_is_told(folder):
    with pytest.raises(UsageError, match="cannot import no_such_module:Learner: No module named"):
        evaluate(naming(folder, "no_such_module:Learner"))
    with pytest.raises(CheckpointError, match=rf"does not fit {__name__}:Choosy: 'width' is m"):
        evaluate(naming(folder, f"{__name__}:Choosy"))
    with pytest.raises(UsageError, match=r"Opener cannot be built: .* 'no/such/file'$"):
        evaluate(naming(folder, f"{__name__}:Opener"))
    with pytest.raises(CheckpointError, match=rf"does not fit {__name__}:Narrow: size\n\tof bias"):
        evaluate(naming(folder, f"{__name__}:Narrow"))


def test_without_a_usable_trial_there_is_nothing_to_measure(tmp_path):
    writer = Writer(make_folder(tmp_path / "digits", trainable=f"{__name__}:Tested"))
    writer.trial(1, [], error=("nan", "m"))
    writer.end()
    with pytest.raises(NoUsableTrialError):
        evaluate(Results(writer.folder))


def test_the_data_may_lie_elsewhere(folder):
    evaluate(Results(folder), data_dir="/data")
    assert measured[0][1] == {"epochs": 10, "seed": 1, "width": 8, "data_dir": "/data"}


def test_an_own_learner_is_measured_by_its_export(folder, tmp_path):
    """Its tensors are those of the export, all else is a new Learner's."""
    export = read_export(Results(folder).export(tmp_path / "out"))
    found = evaluate_export(export, data_dir="/data")
    assert (found["trial_id"], found["test_loss"], found["test_accuracy"]) == ("00002", 0.25, -1.0)
    [[config, constants, state]] = measured
    assert (config, constants["data_dir"]) == ({"lr": 0.01}, "/data")
    assert state["bias"] == 0
    export.config.__dict__["trainable"] = f"{__name__}:Untested"
    with pytest.raises(UsageError, match=r"has no method test\(\)"):
        evaluate_export(export)
