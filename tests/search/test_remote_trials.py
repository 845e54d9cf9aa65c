"""Trials that are handed out: journaled as those of Tune are, whatever is killed.

Tune's part is played by a loop that calls the scheduler, the searcher and the recorder in Tune's
order; tests/integration/test_ask_tell.py compares with Tune itself.
"""

from __future__ import annotations

import json
import math
import shutil
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ray.tune.trainable.metadata import _TrainingRunMetadata
from synthetic import Clock

from tuner.experiment.events import RESULT, TRIAL_ENDED
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.history import History, fold
from tuner.experiment.journal import Journal
from tuner.experiment.reading import read
from tuner.planning.validation import ValidatedSpec
from tuner.search.ask_tell import AskTell, Suggestion
from tuner.search.driver import Driver, scheduler_of
from tuner.search.resuming import restored
from tuner.search.tune_callbacks import Recorder, TuneSearcher
from tuner.spec.experiment import ExperimentSpec, build_spec
from tuner.trial.trainable import REPORT

EPOCHS = 8


def spec_of(storage: Path, *, strategy: str = "random", **changes: Any) -> ExperimentSpec:
    space = {"lr": "loguniform(1e-4, 1)", "width": "choice([1, 2, 3])"}
    return build_spec(
        {
            "name": "far",
            "trainable": "elsewhere",
            "search": {"strategy": strategy, "space": space},
            "scheduler": {"max_t": EPOCHS, "grace_period": 1, "reduction_factor": 2},
            "num_samples": 12,
            "seed": 3,
            "storage": str(storage),
        }
        | changes
    )


def loss_of(config: dict[str, Any], epoch: int) -> float:
    return abs(math.log10(config["lr"]) + 2) / config["width"] + 1 / epoch


def journal_of(folder: Path) -> list[dict[str, Any]]:
    return [{k: v for k, v in e.items() if k not in ("time", "owner")} for e in read(folder)]


class Tune:
    """Runs trials as Tune does, so many at a time; `rng` decides whose next epoch comes next."""

    def __init__(self, spec: ExperimentSpec, slots: int, rng: Random) -> None:
        self.spec, self.slots, self.rng = spec, slots, rng
        self.live: dict[str, dict[str, Any]] = {}  # Ray's id -> the assignment
        self.epochs: dict[str, int] = {}
        spec.folder.mkdir(parents=True)
        with Journal.open(spec.folder, clock=Clock()) as journal:
            self.search(journal)

    def search(self, journal: Journal) -> None:
        spec = ValidatedSpec.model_validate(dict(self.spec))
        driver = Driver(spec, ExperimentFolder(self.spec.folder), journal)
        driver.restore(slots=self.slots)
        driver.journal_start(resumed=False)
        driver.begin([], fits=lambda: self.slots)
        self.driver, self.scheduler, self.searcher = driver, driver.scheduler, driver.searcher
        self.source, self.recorder = TuneSearcher(driver), Recorder(driver)
        self.fill()
        while self.live:
            self.one_epoch(self.rng.choice(sorted(self.live)))
            self.fill()
        driver.finish("completed")

    def fill(self) -> None:
        while len(self.live) < self.slots:
            ray_id = f"ray{len(self.epochs)}"
            while (given := self.source.suggest(ray_id)) is None and not self.driver.queue.at_end:
                self.searcher.wait(60)
            if not isinstance(given, dict):
                return
            self.live[ray_id], self.epochs[ray_id] = given, 0
            self.recorder.on_trial_start(0, [], self.trial(ray_id))

    def trial(self, ray_id: str) -> Any:
        return SimpleNamespace(config=self.live[ray_id], run_metadata=_TrainingRunMetadata())

    def one_epoch(self, ray_id: str) -> None:
        trial = self.trial(ray_id)
        self.epochs[ray_id] += 1
        epoch = self.epochs[ray_id]
        metrics = {"val_loss": loss_of(trial.config["config"], epoch)}
        result = {**metrics, "training_iteration": epoch}
        done = epoch == EPOCHS
        if not done:
            done = self.scheduler.on_trial_result(None, trial, result) == "STOP"
        if not done:
            self.source.on_trial_result(ray_id, result)
        journaled = {REPORT: {"metrics": metrics, "checkpoints": [], "is_saved": True}}
        self.recorder.on_trial_result(0, [], trial, {**result, **journaled})
        if done:
            self.source.on_trial_complete(ray_id, result)
            self.recorder.on_trial_complete(0, [], trial)
            del self.live[ray_id]


def ask_and_tell(spec: ExperimentSpec, slots: int, rng: Random) -> None:
    """The same trials, by so many clients."""
    clients: dict[str, tuple[Suggestion, int]] = {}
    asked = 0
    with AskTell(spec, clock=Clock()) as search:
        while not search.is_over:
            while len(clients) < slots and (trial := search.suggest()):
                clients[f"ray{asked}"] = trial, 0
                asked += 1
            who = rng.choice(sorted(clients))
            trial, epoch = clients[who]
            clients[who] = trial, epoch + 1
            metrics = {"val_loss": loss_of(trial.config, epoch + 1)}
            if search.report(trial.trial_id, epoch + 1, metrics):
                search.complete(trial.trial_id)
                del clients[who]


@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize("strategy", ["random", "bayesopt"])
def test_the_journal_is_that_of_any_search(tmp_path: Path, strategy: str, slots: int) -> None:
    spec = spec_of(tmp_path / "tune", strategy=strategy, max_concurrent=slots)
    Tune(spec, slots, Random(0))
    elsewhere = spec.replace(storage=str(tmp_path / "elsewhere"))
    ask_and_tell(elsewhere, slots, Random(0))
    expected = journal_of(spec.folder)
    assert journal_of(elsewhere.folder) == expected
    assert {e["status"] for e in expected if e["event"] == TRIAL_ENDED} == {"completed", "stopped"}


# What clients, the network and the machine do, one after the other
CLIENTS = st.sampled_from(["a", "b", "c", "d"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["ask", "report", "report", "again", "stop?"]), CLIENTS),
        st.tuples(st.sampled_from(["complete", "fail", "vanish"]), CLIENTS),
        st.tuples(st.sampled_from(["close", "kill", "torn"]), st.just("driver")),
    ),
    max_size=60,
)


def tear(journal: Path) -> None:
    """Leave half a line: of the end that followed from a report, or else of another report."""
    lines = journal.read_bytes().splitlines(keepends=True)
    last, before = (json.loads(line) for line in (lines[-1], lines[-2 if len(lines) > 1 else -1]))
    decided = last.get("status") == "stopped" or before.get("epoch") == EPOCHS
    follows = before["event"] == RESULT and last["event"] == TRIAL_ENDED
    rest = lines.pop()[:30] if follows and decided else b'{"event":"result","tri'
    journal.write_bytes(b"".join([*lines, rest]))


@pytest.fixture(scope="module", autouse=True)
def disk_that_takes_no_time() -> Iterator[None]:
    """No power is cut here, and nobody asks which commit this is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda fd: None)
        patch.setattr("tuner.search.provenance._git_revision", lambda: None)
        yield


class Fleet:
    """Clients of a search whose driver comes and goes, and what each has been told."""

    def __init__(self, storage: Path, strategy: str) -> None:
        self.storage, self.clock, self.moves = storage, Clock(tick=0.001), 0
        changes = {"num_samples": 6, "max_concurrent": 3, "timeouts": {"report_s": 100}}
        spec = spec_of(storage / "0", strategy=strategy, **changes)
        self.driver = AskTell(spec, clock=self.clock).__enter__()
        self.trials: dict[str, tuple[Suggestion, int]] = {}  # of each client, and its last epoch
        self.acknowledged: dict[str, dict[int, float]] = {}
        self.ended: dict[str, str] = {}

    @property
    def folder(self) -> Path:
        return self.driver.spec.folder

    def step(self, what: str, who: str) -> None:
        if who == "driver":
            self.restart(what)
        elif what == "ask":
            self.ask(who)
        elif who in self.trials:
            getattr(self, {"stop?": "asks"}.get(what, what))(who, *self.trials[who])

    def ask(self, who: str) -> None:
        trial = self.driver.suggest(who)
        mine = self.trials.get(who)
        if mine and not self.driver.should_stop(mine[0].trial_id):
            assert trial is not None
            assert trial.trial_id == mine[0].trial_id
            assert trial.config == mine[0].config
        elif trial:
            self.trials[who] = trial, trial.epoch

    def report(self, who: str, trial: Suggestion, last: int) -> None:
        loss = loss_of(trial.config, last + 1)
        was_running = not self.driver.should_stop(trial.trial_id)
        stops = self.driver.report(trial.trial_id, last + 1, {"val_loss": loss})
        if was_running:
            self.acknowledged.setdefault(trial.trial_id, {})[last + 1] = loss
        self.settle(who, trial, last + 1, stops)

    def again(self, who: str, trial: Suggestion, last: int) -> None:
        """The answer to its last report was lost."""
        if last:
            metrics = {"val_loss": loss_of(trial.config, last)}
            self.settle(who, trial, last, self.driver.report(trial.trial_id, last, metrics))

    def asks(self, who: str, trial: Suggestion, last: int) -> None:
        self.settle(who, trial, last, self.driver.should_stop(trial.trial_id))

    def complete(self, who: str, trial: Suggestion, last: int) -> None:
        self.driver.complete(trial.trial_id)
        self.settle(who, trial, last, self.driver.should_stop(trial.trial_id))

    def fail(self, who: str, trial: Suggestion, last: int) -> None:
        self.driver.complete(trial.trial_id, failure="out of memory", kind="oom")
        self.settle(who, trial, last, self.driver.should_stop(trial.trial_id))

    def vanish(self, who: str, trial: Suggestion, last: int) -> None:
        del self.trials[who]
        self.clock.now += 60

    def settle(self, who: str, trial: Suggestion, epoch: int, stops: bool) -> None:
        if stops:
            self.ended[trial.trial_id] = self.driver.trial(trial.trial_id).status
            del self.trials[who]
        else:
            self.trials[who] = trial, epoch

    def restart(self, how: str) -> None:
        if how == "close":
            self.driver.__exit__()
            folder = self.folder
        else:  # a kill leaves the folder as it is now, perhaps with half a line
            self.moves += 1
            folder = Path(shutil.copytree(self.folder, self.storage / str(self.moves) / "far"))
            self.driver.__exit__()
            if how == "torn":
                tear(folder / "journal.jsonl")
        self.driver = AskTell(folder, clock=self.clock).__enter__()

    def finish(self) -> None:
        """Let everybody train to the end."""
        while not self.driver.is_over:
            self.clock.now += 60  # whoever has vanished is given up
            for who in ("x", "y"):
                self.step("ask", who)
            for who in list(self.trials):
                self.step("report", who)
        self.driver.__exit__()


@pytest.mark.parametrize("strategy", ["random", "bohb"])
@settings(max_examples=15)
@given(steps=STEPS)
def test_nothing_is_lost_or_recorded_twice_whatever_happens(
    tmp_path_factory: pytest.TempPathFactory, strategy: str, steps: list[tuple[str, str]]
) -> None:
    fleet = Fleet(tmp_path_factory.mktemp("fleet"), strategy)
    for step in steps:
        fleet.step(*step)
    fleet.finish()
    spec, history = fleet.driver.spec, fold(read(fleet.folder))
    assert history.status == "completed"
    assert sorted(history.trials) == [f"{number:05}" for number in range(6)]
    assert not history.of_status("running", "interrupted")
    events = [(e["trial_id"], e["epoch"]) for e in read(fleet.folder) if e["event"] == RESULT]
    assert len(events) == len(set(events))
    for trial_id, losses in fleet.acknowledged.items():
        recorded = dict(history.trials[trial_id].values("val_loss"))
        assert losses.items() <= recorded.items()
    for trial_id, status in fleet.ended.items():
        assert history.trials[trial_id].status == status
    replayed = scheduler_of(spec)
    deque(restored(read(fleet.folder), History(spec.objective), replayed, "val_loss"), maxlen=0)
    stopped = {trial.trial_id for trial in history.of_status("stopped")}
    assert stopped == replayed.stopped
