"""A Learner's trial as Tune drives it, in this process; most of a function's is in integration/."""

import json
import pickle
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
from test_worker import Counter, context

from tuner.experiment.folder import ExperimentFolder
from tuner.spec.sections import MEASURED, Objective
from tuner.trial.checkpoints import SaveRules, load_state
from tuner.trial.failures import STORAGE, Failure, WorkerSpentError
from tuner.trial.trainable import REPORT, LearnerTrial
from tuner.trial.trial_process import Leftovers, WorkerReplacedError, is_recycled
from tuner.trial.worker_death import build_death_failure


def begun(kind, context, config):
    """A trial of `kind` with its context, as `tune.with_parameters` brings it in Ray."""

    class Here(kind):
        def setup(self, config):
            super().setup(config, context)

    return Here(config)


class Stop(BaseException):
    """As a user's own, past every `except Exception`."""


class Moody(Counter):
    """Misbehaves as its config says, in its second epoch."""

    def __init__(self, config, constants, **rank):
        super().__init__(config, constants, **rank)
        if config.get("does") == "refuses":
            raise ValueError("no such layer")

    def step(self):
        report = super().step()
        does = self.built_with[0].get("does")
        print("step", self.steps)
        if self.steps < 2 or does is None or (does == "nan later" and self.steps < 3):
            return report
        if does == "exits":
            sys.exit(3)
        if does == "stops":
            raise Stop("enough")
        if does == "raises":
            raise RuntimeError("diverged")
        if does == "poisons":
            raise RuntimeError("CUDA error: device-side assert triggered")
        if does == "has enough":
            return {**report, "done": True}
        return None if does == "none" else {"steps": float("nan")}


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Makes a trial with a config, and ends it."""
    trials = []
    monkeypatch.chdir(tmp_path)

    def begin(config=None, *, trial_id="00000", **changes):
        made = replace(
            context(tmp_path, trainable="test_trainable:Moody", cpus=1), **changes
        )
        trials.append(begun(LearnerTrial, made, assignment(config, trial_id)))
        return trials[-1]

    before = sys.stdout, sys.stderr
    yield begin
    for trial in trials:
        trial.stop()
    assert (sys.stdout, sys.stderr) == before


def assignment(config=None, trial_id="00000", **more):
    return {"trial_id": trial_id, "config": config or {}, **more}


def log(folder, trial_id="00000"):
    return (folder / "trials" / trial_id / "log.txt").read_text()


def test_train_is_a_step_and_a_checkpoint(make, tmp_path):
    trial = make(saves=SaveRules(rungs=frozenset({1, 2, 3})))
    results = [trial.train() for _ in range(3)]
    assert [r["training_iteration"] for r in results] == [1, 2, 3]
    assert [r["done"] for r in results] == [False, False, True]
    for epoch, result in enumerate(results, start=1):
        report = json.loads(json.dumps(result[REPORT]))
        metrics = report["metrics"]
        assert metrics.keys() == {"steps", "threads", *MEASURED}
        assert (metrics["steps"], metrics["threads"]) == (epoch, 1)
        [saved] = report["checkpoints"]
        assert saved["path"] == f"trials/00000/checkpoints/{epoch}/state.pt"
        assert (tmp_path / saved["path"]).is_file()
        assert result["steps"] == epoch  # where the scheduler looks for it
    assert log(tmp_path) == "step 1\nstep 2\nstep 3\n"


# The best is the last, and no write is short enough to wait for
HIGHEST = Objective(metric="steps", mode="max")
HOLD_ALL = {"saves": SaveRules(every_s=1000, short_share=0), "objective": HIGHEST}
SAVE_ALL = {"saves": SaveRules(every_s=0, short_share=0), "objective": HIGHEST}


def checkpoints(result):
    return [saved["epoch"] for saved in result[REPORT]["checkpoints"]]


def test_checkpoint_written_beside_training_comes_with_a_later_report(make, tmp_path):
    trial = make(epochs=4, **SAVE_ALL)
    first = trial.train()
    second = trial.train()
    assert (checkpoints(first), first[REPORT]["is_saved"]) == ([1], True)
    assert (checkpoints(second), second[REPORT]["is_saved"]) == ([], False)
    trial._workers._writer._writing.result(60)
    assert checkpoints(trial.train()) == [2]
    last = trial.train()
    assert (checkpoints(last), last["done"], last[REPORT]["is_saved"]) == (
        [3, 4],
        True,
        True,
    )
    for saved in last[REPORT]["checkpoints"]:
        state = load_state(tmp_path / saved["path"], saved["sha256"])
        assert state == {"steps": saved["epoch"]}


def test_save_now_writes_the_best_and_the_last(make, tmp_path):
    trial = make(epochs=9, **HOLD_ALL)
    results = [trial.train() for _ in range(3)]
    assert [checkpoints(result) for result in results] == [[1], [], []]
    assert not results[-1][REPORT]["is_saved"]
    # So that the third is held, and a fourth is no better
    trial._policy.is_best(4, {"steps": 99})
    trial.train()
    saved = trial.save_now()["checkpoints"]
    assert [record["epoch"] for record in saved] == [3, 4]
    for record in saved:
        state = load_state(tmp_path / record["path"], record["sha256"])
        assert state["steps"] == record["epoch"]


def test_failure_comes_with_the_checkpoint_written_beside_it(make):
    trial = make({"does": "nan later"}, **SAVE_ALL)
    trial.train()
    trial.train()
    failed = trial.train()
    assert failed[REPORT]["failure"]["kind"] == "nan"
    assert checkpoints(failed) == [2]


def test_repeated_epochs_are_saved_each(make):
    trial = make(epochs=9, **HOLD_ALL)
    trial.reset(assignment(reported=3))
    assert [checkpoints(trial.train()) for _ in range(4)] == [[1], [2], [3], []]


@pytest.mark.parametrize(
    ("does", "kind", "message"),
    [
        ("nan", "nan", "'steps' is nan"),
        (
            "none",
            "bad_report",
            "reported NoneType, not a mapping of metrics such as {'steps':",
        ),
    ],
)
def test_bad_report_is_the_last_result(make, tmp_path, does, kind, message):
    trial = make({"does": does})
    assert not trial.train()["done"]
    result = trial.train()
    assert result["done"]
    failure = result[REPORT]["failure"]
    assert (failure["kind"], failure["message"].startswith(message)) == (kind, True)
    assert message in log(tmp_path)
    assert trial.train()[REPORT] == result[REPORT]


@pytest.mark.parametrize(
    ("does", "good", "message", "poisoned"),
    [
        ("raises", 1, "RuntimeError: diverged", False),
        ("exits", 1, "SystemExit: 3", False),
        ("stops", 1, "Stop: enough", False),
        ("poisons", 1, "RuntimeError: CUDA error: device-side assert triggered", True),
        ("refuses", 0, "ValueError: no such layer", False),
    ],
)
def test_exception_ends_the_process(make, tmp_path, does, good, message, poisoned):
    trial = make({"does": does})
    for _ in range(good):
        trial.train()
    with pytest.raises(WorkerSpentError) as spent:
        trial.train()
    sent = pickle.loads(pickle.dumps(spent.value))  # as it comes to the driver
    failure = build_death_failure(SimpleNamespace(cause=sent))
    assert failure.message.startswith(f"{message}, at test_trainable.py:")
    assert failure == Failure("exception", failure.message, poisoned)
    assert "Traceback" in log(tmp_path)


def lacks_stdout(leftovers):
    raise AttributeError("stdout is gone")


@pytest.mark.parametrize(
    ("clear", "reason", "is_logged"),
    [
        (lambda leftovers: "it has kept 513 MiB", "it has kept 513 MiB", True),
        (lacks_stdout, "cleared away: AttributeError: stdout is gone", False),
    ],
)
def test_spent_process_begins_no_other_trial(
    make, tmp_path, monkeypatch, clear, reason, is_logged
):
    trial = make()
    trial.train()
    with monkeypatch.context() as spent:
        spent.setattr(Leftovers, "clear", clear)
        with pytest.raises(WorkerReplacedError, match=reason) as replaced:
            trial.reset(assignment(trial_id="00001"))
    assert is_recycled(
        SimpleNamespace(cause=pickle.loads(pickle.dumps(replaced.value)))
    )
    assert (reason in log(tmp_path)) == is_logged
    assert not (tmp_path / "trials/00001").exists()


def test_unwritable_checkpoint_is_a_storage_failure(make, tmp_path):
    trial = make()
    (tmp_path / "trials/00000/checkpoints").write_text("in the way")
    failure = trial.train()[REPORT]["failure"]
    assert failure["kind"] == STORAGE
    assert failure["message"].startswith(
        f"cannot write {tmp_path}/trials/00000/checkpoints/1/"
    )


def test_unwritable_log_is_a_storage_failure(make, tmp_path):
    (tmp_path / "trials").write_text("in the way")
    failure = make().train()[REPORT]["failure"]
    assert (failure["kind"], "log.txt: File exists" in failure["message"]) == (
        STORAGE,
        True,
    )


def test_reset_begins_a_new_trial(make, tmp_path):
    trial = make({"does": "nan"})
    trial.train()
    trial.train()
    assert trial.reset(assignment(trial_id="00001"))
    assert trial.train()[REPORT]["metrics"]["steps"] == 1
    assert log(tmp_path, "00001") == "step 1\n"


def test_trial_continues_from_a_checkpoint(make):
    trial = make(saves=SaveRules(rungs=frozenset({2})))
    trial.train()
    [checkpoint] = trial.train()[REPORT]["checkpoints"]
    trial.reset(assignment(epoch=checkpoint.pop("epoch"), checkpoint=checkpoint))
    result = trial.train()
    assert (result["training_iteration"], result["steps"], result["done"]) == (
        3,
        3,
        True,
    )


def test_report_of_done_ends_the_trial(make, tmp_path):
    trial = make({"does": "has enough"})
    first = trial.train()
    last = trial.train()
    assert [first["done"], last["done"]] == [False, True]
    assert "done" not in first[REPORT]
    assert last[REPORT]["done"] is True
    assert "done" not in last[REPORT]["metrics"]
    assert last[REPORT]["checkpoints"][-1]["epoch"] == 2
    assert log(tmp_path) == "step 1\nstep 2\n"  # nothing of a metric that is no number


def test_log_is_uploaded_before_the_last_report(make, monkeypatch):
    uploaded = []
    monkeypatch.setattr(
        ExperimentFolder, "upload", lambda self, path: uploaded.append(path.name)
    )
    trial = make({"does": "has enough"})
    assert [trial.train()["done"], "log.txt" in uploaded] == [False, False]
    assert [trial.train()["done"], "log.txt" in uploaded] == [True, True]
