"""SIGKILL in the middle of a write: what was written before can be read, and gone on from.

A process forks a child that writes as a search does (a checkpoint, its report and its record in
the journal; older checkpoints go) and dies within a write, of the journal or of a checkpoint, after
a random byte. The next child goes on from what is there. The process prints how many kills came in
the middle, and what the trials came to.
"""

import json
import os
import random
import signal
import traceback

import pytest
import torch
from forked import said_by
from synthetic import OWNER, make_folder

from tuner.experiment.events import (
    CHECKPOINT,
    EXPERIMENT_STARTED,
    RESULT,
    TRIAL_STARTED,
)
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.history import fold
from tuner.experiment.journal import Journal
from tuner.experiment.local_sync import LocalSync
from tuner.experiment.reading import read
from tuner.search.retention import Retention, build_assignment
from tuner.spec.sections import Objective
from tuner.trial import torch_compat
from tuner.trial.checkpoints import CheckpointStore, load_state

KILLS = [15, pytest.param(100, marks=pytest.mark.slow)]  # of each kind
TRIALS = ("00000", "00001", "00002")
SIZE = 100_000  # numbers in a checkpoint, of 4 bytes each
LOSS = Objective(metric="loss", mode="min")


@pytest.mark.parametrize("kills", KILLS)
@pytest.mark.parametrize("kind", ["journal", "checkpoint"])
def test_killed_write_leaves_readable_state(tmp_path, kind, kills):
    outcome = json.loads(said_by(kill_writes, tmp_path / "x", kind, kills))
    assert outcome["kills"] == kills
    # The others came at a line's, or at a file's end
    assert outcome["torn"] > kills / 5
    assert min(outcome["epochs"].values()) > kills / 10


def kill_writes(folder, kind, kills):
    make_folder(folder, metric="loss", mode="min")
    (folder / "journal.jsonl").touch()
    rng = random.Random(kind)
    torn = 0
    epochs = dict.fromkeys(TRIALS, 0)
    for _ in range(kills):
        _killed(write_on, folder, kind, rng.random())
        torn += _is_torn(folder, kind)
        history = fold(read(folder))
        now = {trial_id: came_to(folder, history, trial_id) for trial_id in TRIALS}
        assert all(now[trial_id] >= epochs[trial_id] for trial_id in TRIALS), (
            epochs,
            now,
        )
        epochs = now
    print(json.dumps({"kills": kills, "torn": torn, "epochs": epochs}))


def _killed(work, *arguments):
    """Run `work` in a child, which must be its end."""
    pid = os.fork()
    if pid == 0:
        try:
            work(*arguments)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, (
        "the child found something amiss"
    )


def write_on(folder, kind, chance):
    """Go on with the search in `folder` until killed, within a write of `kind`."""
    rng = random.Random(chance)
    left = rng.randrange(1, 6)  # checkpoints until the kill
    if kind == "journal":
        _die_after(rng.randrange(5_000), os, "write")
    with Journal.open(folder) as journal:
        history = fold(read(folder))
        sync = LocalSync(folder)
        retention = Retention(folder, history, LOSS, sync=sync)

        def append(kind, **fields):
            """Journal one event, and notify as a driver does."""
            event = journal.append(kind, **fields)
            history.apply(event)
            retention(event)
            sync.flush(journal)

        append(EXPERIMENT_STARTED, resumed=True, owner=OWNER)
        epochs = {trial_id: came_to(folder, history, trial_id) for trial_id in TRIALS}
        for trial_id in TRIALS:
            append(TRIAL_STARTED, trial_id=trial_id, config={})
        while True:
            trial_id = rng.choice(TRIALS)
            epoch = epochs[trial_id] = epochs[trial_id] + 1
            left -= 1
            if kind == "checkpoint" and left == 0:
                _save_to_dying_files()
                _die_after(rng.randrange(5 * SIZE), DyingFile, "write")
            saved = CheckpointStore(folder, trial_id).save(epoch, state_of(epoch))
            if kind == "checkpoint" and left == 0:
                os.kill(os.getpid(), signal.SIGKILL)  # between the file and its line
            if epoch > history.trials[trial_id].last_epoch:
                report = {
                    "loss": 1 / epoch,
                    **{f"metric_{n}": n / 7 for n in range(20)},
                }
                append(RESULT, trial_id=trial_id, epoch=epoch, metrics=report)
            append(CHECKPOINT, trial_id=trial_id, **saved.as_dict())


def state_of(epoch):
    return {"epoch": epoch, "w": torch.full((SIZE,), float(epoch))}


def came_to(folder, history, trial_id):
    """The epoch that the trial goes on from; everything that the journal promises is there."""
    trial = history.trials.get(trial_id)
    if trial is None:
        return 0
    assignment = build_assignment(ExperimentFolder(folder), trial)
    epoch = assignment.epoch
    checkpoint = assignment.checkpoint
    journaled = [
        record.epoch for record in trial.checkpoints if record.epoch <= trial.last_epoch
    ]
    assert epoch == max(journaled, default=0)  # the newest is not damaged
    if checkpoint is None:
        assert trial.last_epoch <= 1
        return 0
    assert trial.last_epoch - 1 <= epoch <= trial.last_epoch
    state = load_state(folder / checkpoint["path"], checkpoint["sha256"])
    assert state["epoch"] == epoch
    assert bool((state["w"] == epoch).all())
    return epoch


class DyingFile:
    """An open file, of which `_die_after` can replace the method `write`."""

    def __init__(self, file):
        self.file = file
        self.flush = file.flush

    def write(self, data):
        written = self.file.write(data)
        self.file.flush()
        return written


def _save_to_dying_files():
    really_save = torch_compat.save
    torch_compat.save = lambda state, file: really_save(state, DyingFile(file))


def _die_after(bytes_left, owner, name):
    """Kill this process when it has written so much more by `owner`'s function `name`."""
    really_write = getattr(owner, name)

    def write(to, data):
        nonlocal bytes_left
        if bytes_left < len(data):
            really_write(to, data[:bytes_left])
            os.kill(os.getpid(), signal.SIGKILL)
        bytes_left -= len(data)
        return really_write(to, data)

    setattr(owner, name, write)


def _is_torn(folder, kind):
    if kind == "journal":
        return not (folder / "journal.jsonl").read_bytes().endswith(b"\n")
    return any(folder.glob("trials/*/checkpoints/*/*.partial"))
