"""The trials of a class of Ray Tune's and of a script, in this process; more: integration/."""

import json
import os
import signal
import sys
import tempfile
from pathlib import Path

import forked
import pytest
from patience import wait_until
from ray import tune
from synthetic import read_document
from test_trainable import assignment, begun, log
from test_worker import context

from tuner import ray_compat
from tuner.spec.command import Command
from tuner.trial import script
from tuner.trial.failures import WorkerSpentError
from tuner.trial.process_trials import ClassTrial, CommandTrial
from tuner.trial.trainable import REPORT, RUNS_ON

REPORTING = """
import json, os, sys, tuner
for epoch in range(1, int(sys.argv[1]) + 1):
    open(os.environ["TUNER_CHECKPOINT_DIR"] + "/epoch", "w").write(str(epoch))
    tuner.report(steps=epoch, epoch=epoch)
open("model", "w").write("weights")
"""


class UncopiableError(Exception):
    """One that cannot be copied, as Ray would."""

    def __init__(self, first, second):
        super().__init__(first)


class Counting(tune.Trainable):
    """Counts its steps; ends by itself, or raises, at the step that its config says."""

    def setup(self, config):
        self.counted = config.get("start", 0)
        self.kept = {
            "files": self.keep_files,
            "dict": lambda folder: {"counted": self.counted},
        }

    def step(self):
        self.counted += 1
        if self.counted == self.config.get("raises_at"):
            raise UncopiableError("enough", 2)
        return {
            "steps": self.counted,
            "own": self.iteration,
            "here": float(self.logdir == os.getcwd()),
            **{name: self.config[name] for name in ("seed",) if name in self.config},
            **({"done": True} if self.counted == self.config.get("ends_at") else {}),
        }

    def keep_files(self, folder):
        (Path(folder) / "counted.json").write_text(json.dumps(self.counted))

    def save_checkpoint(self, checkpoint_dir):
        return self.kept[self.config.get("keeps", "files")](checkpoint_dir)

    def load_checkpoint(self, checkpoint):
        if isinstance(checkpoint, dict):
            self.counted = checkpoint["counted"]
        else:
            self.counted = read_document(Path(checkpoint) / "counted.json")

    def reset_config(self, new_config):
        return True  # and forgets nothing, as Ray's own examples

    def cleanup(self):
        print("cleaned up at", self.counted)
        if self.config.get("fails_at_the_end"):
            raise UncopiableError("the end", 2)


@pytest.fixture
def begin(tmp_path, monkeypatch):
    """Begins a trial of a kind, which is stopped after the test."""
    trials = []
    monkeypatch.chdir(tmp_path)

    def begin(kind, trainable, config, **fields):
        made = context(tmp_path, trainable=trainable, cpus=1)
        trials.append(begun(kind, made, assignment(config, **{"seed": None, **fields})))
        return trials[-1]

    yield begin
    for trial in trials:
        trial.stop()


@pytest.fixture
def make(begin):
    """Makes a trial of the class `Counting`."""
    path = "test_process_trials:Counting"
    return lambda config=None, **fields: begin(ClassTrial, path, config, **fields)


def test_train_is_a_step_and_a_checkpoint(make, tmp_path):
    trial = make()
    results = [trial.train() for _ in range(3)]
    assert [r["done"] for r in results] == [False, False, True]
    for epoch, result in enumerate(results, start=1):
        report = json.loads(json.dumps(result[REPORT]))
        assert report["metrics"] == {"steps": epoch, "own": epoch - 1, "here": 1}
        assert report["checkpoints"][0]["path"] == f"trials/00000/checkpoints/{epoch}"
        assert (tmp_path / report["checkpoints"][0]["path"] / "counted.json").is_file()
    trial.stop()
    assert log(tmp_path) == "cleaned up at 3\n"


@pytest.mark.parametrize("keeps", ["files", "dict"])
def test_class_continues_from_its_checkpoint(make, keeps):
    trial = make({"keeps": keeps})
    trial.train()
    [checkpoint] = trial.train()[REPORT]["checkpoints"]
    trial.stop()
    epoch = checkpoint.pop("epoch")
    resumed = make({"keeps": keeps}, epoch=epoch, checkpoint=checkpoint)
    result = resumed.train()
    assert (result["steps"], result["own"], result["training_iteration"]) == (3, 2, 3)
    assert result["done"]


def test_class_ends_by_itself(make):
    trial = make({"ends_at": 2})
    assert [trial.train()["done"] for _ in range(2)] == [False, True]


def test_reset_makes_a_new_object(make):
    trial = make()
    trial.train()
    assert trial.reset(assignment(trial_id="00001", seed=None))
    assert trial.train()["steps"] == 1


def test_error_of_step_is_the_failure(make, tmp_path):
    trial = make({"raises_at": 1})
    with pytest.raises(WorkerSpentError) as spent:
        trial.train()
    assert spent.value.failure.message.startswith(
        "UncopiableError: enough, at test_process_trials.py:"
    )
    assert "raise UncopiableError" in log(tmp_path)


def test_failed_cleanup_ends_the_process(make, tmp_path):
    trial = make({"fails_at_the_end": True})
    trial.train()
    trial.stop()
    reason = (
        "this process is not used again: cleanup() failed: UncopiableError: the end"
    )
    assert log(tmp_path).splitlines()[-1] == reason


def test_seed_of_the_trial_is_in_its_config(make):
    trial = make({"start": 5}, seed=7)
    report = trial.train()[REPORT]["metrics"]
    assert (report["seed"], report["steps"]) == (7, 6)


@pytest.fixture
def make_script(begin, tmp_path, monkeypatch):
    """Makes a trial of a Python script with arguments."""
    monkeypatch.setenv("PYTHONPATH", str(Path(script.__file__).parents[2]))

    def make(source, *arguments, config=None, **fields):
        (tmp_path / "train.py").write_text(source)
        command = Command([sys.executable, "train.py", *arguments])
        return begin(CommandTrial, command, config, **fields)

    return make


def failure(result):
    return tuple(result[REPORT]["failure"].values())[:2]


def test_script_runs_to_its_exit_after_the_last_report(make_script, tmp_path):
    trial = make_script(REPORTING, "{n}", config={"n": 3})
    results = [trial.train() for _ in range(3)]
    assert [r["training_iteration"] for r in results] == [1, 2, 3]
    assert [r["done"] for r in results] == [False, False, False]
    assert results[2][REPORT][RUNS_ON] is True
    for epoch, result in enumerate(results, start=1):
        assert result[REPORT]["metrics"] == {"steps": epoch}
        [saved] = result[REPORT]["checkpoints"]
        assert (tmp_path / saved["path"] / "epoch").read_text() == str(epoch)
    assert trial.train() == ray_compat.build_end_report()
    trial.stop()
    assert (tmp_path / "trials/00000/files/model").read_text() == "weights"
    assert sorted(os.listdir(tmp_path / "trials/00000/checkpoints")) == ["1", "2", "3"]
    assert log(tmp_path) == f"$ {sys.executable} {tmp_path}/train.py 3\n"


def begin_and_be_killed(folder):
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder / "tmp")
    os.chdir(folder)
    command = Command([sys.executable, "train.py"])
    begun(
        CommandTrial, context(folder, trainable=command, cpus=1), assignment(seed=None)
    )
    assert len(os.listdir(os.environ["TMPDIR"])) == 1
    os.kill(os.getpid(), signal.SIGKILL)


def test_temporary_folder_of_a_script_is_removed_if_its_worker_is_killed(tmp_path):
    (tmp_path / "tmp").mkdir()
    (tmp_path / "train.py").write_text("import time; time.sleep(600)")
    assert forked.run_to_exit(begin_and_be_killed, tmp_path) == -signal.SIGKILL
    wait_until(lambda: not os.listdir(tmp_path / "tmp"))


def test_script_is_ended_after_max_t_reports(make_script, tmp_path):
    trial = make_script(REPORTING, "9")
    assert [trial.train()["training_iteration"] for _ in range(3)] == [1, 2, 3]
    assert trial.train() == ray_compat.build_end_report()
    trial.stop()
    assert not (tmp_path / "trials/00000/files/model").exists()
    assert log(tmp_path).endswith("ended after epoch 3: the script gets SIGTERM\n")


REPORTS_ENVIRONMENT = """
import json, os, tuner
names = ["TUNER_CONFIG", "TUNER_SEED", "TUNER_RESUME_FROM", "OMP_NUM_THREADS"]
json.dump([os.environ.get(name) for name in names], open("told", "w"))
tuner.report(steps=1, here=float(os.getcwd() == str(tuner.trial_dir())))
"""


@pytest.mark.parametrize(
    ("seed", "config"), [(None, {"a": 1}), (7, {"a": 1, "seed": 7})]
)
def test_environment_has_config_seed_and_threads(
    make_script, tmp_path, monkeypatch, seed, config
):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    trial = make_script(REPORTS_ENVIRONMENT, config={"a": 1}, seed=seed)
    assert trial.train()["here"] == 1
    values = read_document(tmp_path / "trials/00000/files/told")
    assert values == [json.dumps(config), str(seed or 1), None, "1"]


GOING_ON = """
import os, tuner
first = 0
if "TUNER_RESUME_FROM" in os.environ:
    first = int(open(os.environ["TUNER_RESUME_FROM"] + "/epoch").read())
tuner.report(steps=first + 1, **{"epoch": eval(os.environ["COUNTS"])(first)})
"""
CHECKPOINT = {"path": "trials/00000/checkpoints/2", "sha256": "not compared here"}


@pytest.mark.parametrize(
    ("counts", "epoch"),
    [
        ("lambda done: done + 1", 3),  # from 1
        ("lambda done: done", 3),  # from 0
        ("lambda done: None", 3),  # not at all
        ("lambda done: 2.5", 3),  # in halves
        ("lambda done: 1", 1),  # begins anew
        ("lambda done: 10", 10),  # reports every tenth epoch
    ],
)
def test_script_continues_from_its_checkpoint(
    make_script, tmp_path, monkeypatch, counts, epoch
):
    (tmp_path / "trials/00000/checkpoints/2").mkdir(parents=True)
    (tmp_path / "trials/00000/checkpoints/2/epoch").write_text("2")
    (tmp_path / "trials/00000/checkpoints/new").mkdir()
    (tmp_path / "trials/00000/checkpoints/new/half").write_text(
        "of a process that was killed"
    )
    monkeypatch.setenv("COUNTS", counts)
    result = make_script(GOING_ON, epoch=2, checkpoint=CHECKPOINT).train()
    assert (result["steps"], result["training_iteration"]) == (3, epoch)
    assert result[REPORT]["checkpoints"] == []


@pytest.mark.parametrize(
    ("source", "kind", "message"),
    [
        ("raise ValueError('no such layer')", "exception", "ValueError: no such layer"),
        ("import sys; sys.exit(3)", "exception", "exit code 3: stderr is empty"),
        (
            "raise RuntimeError('CUDA out of memory. Tried')",
            "oom",
            "CUDA out of memory",
        ),
        ("import os; os.kill(os.getpid(), 11)", "crash", "killed by SIGSEGV"),
        ("open('train.py')", "exception", "open tuner.start_dir() / 'train.py'"),
        ("print(1)", "bad_report", "call tuner.report(steps=...) after each epoch"),
        ("import tuner; tuner.report(steps=float('nan'))", "nan", "'steps' is nan"),
    ],
)
def test_failure_has_the_message_of_the_script(
    make_script, tmp_path, source, kind, message
):
    trial = make_script(source)
    result = trial.train()
    assert failure(result)[0] == kind
    assert message in failure(result)[1]
    assert message in log(tmp_path) or kind == "exception"
    # The process is used again
    assert trial.reset(assignment(trial_id="00001", seed=None))
