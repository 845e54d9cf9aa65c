"""Trials that clients run: nothing is lost or recorded twice, whatever is killed."""

import json
import math
import shutil
from collections import deque
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from synthetic import Clock

from tuner.experiment.changes import Lengths
from tuner.experiment.events import RESULT, TRIAL_ENDED
from tuner.experiment.history import History, fold
from tuner.experiment.reading import read
from tuner.search.ask_tell import AskTell
from tuner.search.driver import build_scheduler
from tuner.search.replay import replay_events
from tuner.spec.experiment import build_spec

EPOCHS = 8


def spec_of(storage, strategy):
    space = {"lr": "loguniform(1e-4, 1)", "width": "choice([1, 2, 3])"}
    return build_spec(
        {
            "name": "far",
            "trainable": "elsewhere",
            "search": {"strategy": strategy, "space": space},
            "scheduler": {"max_t": EPOCHS, "grace_period": 1, "reduction_factor": 2},
            "num_samples": 6,
            "max_concurrent": 3,
            "timeouts": {"report_s": 100},
            "seed": 3,
            "storage": str(storage),
        }
    )


def loss_of(config, epoch):
    return abs(math.log10(config["lr"]) + 2) / config["width"] + 1 / epoch


# What clients, the network and the machine do, one after the other
CLIENTS = st.sampled_from(["a", "b", "c", "d"])
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(["ask", "report", "report", "again", "check"]), CLIENTS
        ),
        st.tuples(st.sampled_from(["complete", "fail", "vanish"]), CLIENTS),
        st.tuples(st.sampled_from(["close", "kill", "torn"]), st.just("driver")),
    ),
    max_size=60,
)


def tear(journal):
    """Leave half a line: of the end that followed from a report, or else of another report."""
    lines = journal.read_bytes().splitlines(keepends=True)
    last, before = (
        json.loads(line) for line in (lines[-1], lines[-2 if len(lines) > 1 else -1])
    )
    decided = last.get("status") == "stopped" or before.get("epoch") == EPOCHS
    follows = before["event"] == RESULT and last["event"] == TRIAL_ENDED
    rest = lines.pop()[:30] if follows and decided else b'{"event":"result","tri'
    journal.write_bytes(b"".join([*lines, rest]))


@pytest.fixture(scope="module", autouse=True)
def disk_that_takes_no_time():
    """No power is cut here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda fd: None)
        yield


class Fleet:
    """Clients of a search whose driver comes and goes, and the answers that they got."""

    def __init__(self, storage, strategy):
        self.storage = storage
        self.clock = Clock(tick=0.001)
        self.moves = 0
        self.driver = AskTell(
            spec_of(storage / "0", strategy), clock=self.clock
        ).__enter__()
        self.trials = {}  # client -> its trial, and the last epoch
        self.acknowledged = {}
        self.ended = {}  # by trial_id: losses by epoch, and the status
        # Without any report, a search whose first three trials fail alike ends
        self.ask("first")
        self.report("first", *self.trials["first"])

    @property
    def folder(self):
        return self.driver.spec.folder

    def step(self, what, who):
        if who == "driver":
            self.restart(what)
        elif what == "ask":
            self.ask(who)
        elif who in self.trials:
            getattr(self, what)(who, *self.trials[who])

    def ask(self, who):
        trial = self.driver.suggest(who)
        mine = self.trials.get(who)
        if mine and not self.driver.should_stop(mine[0].trial_id):
            assert (trial.trial_id, trial.config) == (mine[0].trial_id, mine[0].config)
        elif trial:
            self.trials[who] = trial, trial.epoch

    def report(self, who, trial, last):
        loss = loss_of(trial.config, last + 1)
        was_running = not self.driver.should_stop(trial.trial_id)
        stops = self.driver.report(trial.trial_id, last + 1, {"val_loss": loss})
        if was_running:
            self.acknowledged.setdefault(trial.trial_id, {})[last + 1] = loss
        self.settle(who, trial, last + 1, stops)

    def again(self, who, trial, last):
        """The answer to its last report was lost."""
        if last:
            metrics = {"val_loss": loss_of(trial.config, last)}
            self.settle(
                who, trial, last, self.driver.report(trial.trial_id, last, metrics)
            )

    def check(self, who, trial, last):
        self.settle(who, trial, last, self.driver.should_stop(trial.trial_id))

    def complete(self, who, trial, last, **failure):
        self.driver.complete(trial.trial_id, **failure)
        self.check(who, trial, last)

    def fail(self, who, trial, last):
        self.complete(who, trial, last, failure="out of memory", kind="oom")

    def vanish(self, who, trial, last):
        del self.trials[who]
        self.clock.now += 60

    def settle(self, who, trial, epoch, stops):
        if stops:
            self.ended[trial.trial_id] = self.driver.trial(trial.trial_id).status
            del self.trials[who]
        else:
            self.trials[who] = trial, epoch

    def restart(self, how):
        if how == "close":
            self.driver.__exit__()
            folder = self.folder
        else:  # a kill leaves the folder as it is now, perhaps with half a line
            self.moves += 1
            folder = Path(
                shutil.copytree(self.folder, self.storage / str(self.moves) / "far")
            )
            self.driver.__exit__()
            if how == "torn":
                tear(folder / "journal.jsonl")
        self.driver = AskTell(folder, clock=self.clock).__enter__()

    def finish(self):
        """Let everybody train to the end."""
        while not self.driver.is_over:
            self.clock.now += 60  # trials of vanished clients time out
            for who in ("x", "y"):
                self.step("ask", who)
            for who in list(self.trials):
                self.step("report", who)
        self.driver.__exit__()


@settings(max_examples=20)
@given(strategy=st.sampled_from(["random", "bohb"]), steps=STEPS)
# Three time out at once
@example(strategy="random", steps=[("ask", "a"), ("ask", "b"), ("vanish", "a")])
def test_remote_trials_lose_and_repeat_nothing_whatever_happens(
    tmp_path_factory, strategy, steps
):
    fleet = Fleet(tmp_path_factory.mktemp("fleet"), strategy)
    for step in steps:
        fleet.step(*step)
    fleet.finish()
    spec = fleet.driver.spec
    history = fold(read(fleet.folder))
    assert history.status == "completed"
    assert sorted(history.trials) == [f"{number:05}" for number in range(6)]
    assert not history.list_by_status("running", "interrupted")
    events = [
        (e["trial_id"], e["epoch"]) for e in read(fleet.folder) if e["event"] == RESULT
    ]
    assert len(events) == len(set(events))
    for trial_id, losses in fleet.acknowledged.items():
        recorded = dict(history.trials[trial_id].list_values("val_loss"))
        assert losses.items() <= recorded.items()
    for trial_id, status in fleet.ended.items():
        assert history.trials[trial_id].status == status
    replayed = build_scheduler(spec)
    deque(
        replay_events(
            read(fleet.folder), History(spec.objective), replayed, "val_loss", Lengths()
        ),
        maxlen=0,
    )
    stopped = {trial.trial_id for trial in history.list_by_status("stopped")}
    assert stopped == replayed.stopped
