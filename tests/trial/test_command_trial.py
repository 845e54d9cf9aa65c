"""The trial of a script, in this process; more of it is in integration/."""

import json
import os
import sys
from pathlib import Path

import pytest
from test_trainable import assignment, begun, log
from test_worker import context

from tuner import ray_compat
from tuner.spec.command import Command
from tuner.trial import script
from tuner.trial.command_trial import CommandTrial
from tuner.trial.trainable import REPORT, RUNS_ON

REPORTING = """
import json, os, sys, tuner
for epoch in range(1, int(sys.argv[1]) + 1):
    open(os.environ["TUNER_CHECKPOINT_DIR"] + "/epoch", "w").write(str(epoch))
    tuner.report(steps=epoch, epoch=epoch)
open("model", "w").write("weights")
"""


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Makes a trial of a Python script with arguments."""
    trials = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(script.__file__).parents[2]))

    def begin(source, *arguments, config=None, **fields):
        (tmp_path / "train.py").write_text(source)
        command = Command([sys.executable, "train.py", *arguments])
        made = context(tmp_path, trainable=command, cpus=1)
        fields = {"seed": None, **fields}
        trials.append(begun(CommandTrial, made, assignment(config, **fields)))
        return trials[-1]

    yield begin
    for trial in trials:
        trial.stop()


def failure(result):
    return tuple(result[REPORT]["failure"].values())[:2]


def test_script_runs_to_its_exit_after_the_last_report(make, tmp_path):
    trial = make(REPORTING, "{n}", config={"n": 3})
    results = [trial.train() for _ in range(3)]
    assert [r["training_iteration"] for r in results] == [1, 2, 3]
    assert [r["done"] for r in results] == [False, False, False]
    assert results[2][REPORT][RUNS_ON] is True
    for epoch, result in enumerate(results, start=1):
        assert result[REPORT]["metrics"] == {"steps": epoch}
        [saved] = result[REPORT]["checkpoints"]
        assert (tmp_path / saved["path"] / "epoch").read_text() == str(epoch)
    assert trial.train() == ray_compat.ended()
    trial.stop()
    assert (tmp_path / "trials/00000/files/model").read_text() == "weights"
    assert sorted(os.listdir(tmp_path / "trials/00000/checkpoints")) == ["1", "2", "3"]
    assert log(tmp_path) == f"$ {sys.executable} {tmp_path}/train.py 3\n"


def test_script_is_ended_after_max_t_reports(make, tmp_path):
    trial = make(REPORTING, "9")
    assert [trial.train()["training_iteration"] for _ in range(3)] == [1, 2, 3]
    assert trial.train() == ray_compat.ended()
    trial.stop()
    assert not (tmp_path / "trials/00000/files/model").exists()
    assert log(tmp_path).endswith("ended after epoch 3: the script gets SIGTERM\n")


PRINTING = """
import json, os, time
for epoch in range(1, 3):
    open(os.environ["TUNER_CHECKPOINT_DIR"] + "/epoch", "w").write(str(epoch))
    print("not a report"), print(json.dumps({"loss": 1})), print("{no json")
    print(json.dumps({"steps": epoch, "val": {"acc": 0.5}}))
    time.sleep(0.2)
"""


def test_json_lines_with_the_metric_are_reports(make, tmp_path):
    trial = make(PRINTING)
    for epoch in (1, 2):
        result = trial.train()
        assert result[REPORT]["metrics"] == {"steps": epoch, "val/acc": 0.5}
        [saved] = result[REPORT]["checkpoints"]
        assert (tmp_path / saved["path"] / "epoch").read_text() == str(epoch)
    assert trial.train() == ray_compat.ended()
    assert log(tmp_path).count("not a report\n") == 2


REPORTS_ENVIRONMENT = """
import json, os, tuner
names = ["TUNER_CONFIG", "TUNER_SEED", "TUNER_RESUME_FROM", "OMP_NUM_THREADS"]
json.dump([os.environ.get(name) for name in names], open("told", "w"))
tuner.report(steps=1, here=float(os.getcwd() == str(tuner.trial_dir())))
"""


@pytest.mark.parametrize(("seed", "config"), [(None, {"a": 1}), (7, {"a": 1, "seed": 7})])
def test_environment_has_config_seed_and_threads(make, tmp_path, monkeypatch, seed, config):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    trial = make(REPORTS_ENVIRONMENT, config={"a": 1}, seed=seed)
    assert trial.train()["here"] == 1
    values = json.loads((tmp_path / "trials/00000/files/told").read_text())
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
def test_script_continues_from_its_checkpoint(make, tmp_path, monkeypatch, counts, epoch):
    (tmp_path / "trials/00000/checkpoints/2").mkdir(parents=True)
    (tmp_path / "trials/00000/checkpoints/2/epoch").write_text("2")
    (tmp_path / "trials/00000/checkpoints/new").mkdir()
    (tmp_path / "trials/00000/checkpoints/new/half").write_text("of a process that was killed")
    monkeypatch.setenv("COUNTS", counts)
    result = make(GOING_ON, epoch=2, checkpoint=CHECKPOINT).train()
    assert (result["steps"], result["training_iteration"]) == (3, epoch)
    assert result[REPORT]["checkpoints"] == []


@pytest.mark.parametrize(
    ("source", "kind", "message"),
    [
        ("raise ValueError('no such layer')", "exception", "ValueError: no such layer"),
        ("import sys; sys.exit(3)", "exception", "exit code 3: stderr is empty"),
        ("raise RuntimeError('CUDA out of memory. Tried')", "oom", "CUDA out of memory"),
        ("raise MemoryError", "oom", "MemoryError"),
        ("import os; os.kill(os.getpid(), 11)", "crash", "killed by SIGSEGV"),
        ("print(1)", "bad_report", "call tuner.report(steps=...) after each epoch"),
        ("import tuner; tuner.report(loss=1)", "bad_report", "did not report 'steps'"),
        ("import tuner; tuner.report(steps=float('nan'))", "nan", "'steps' is nan"),
    ],
)
def test_failure_has_the_message_of_the_script(make, tmp_path, source, kind, message):
    trial = make(source)
    result = trial.train()
    assert failure(result)[0] == kind
    assert message in failure(result)[1]
    assert message in log(tmp_path) or kind == "exception"
    assert trial.reset(assignment(trial_id="00001", seed=None))  # the process is used again
