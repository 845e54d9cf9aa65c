"""Whatever ends a search, a resume goes on as if it had not been interrupted."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from tuner.cli import main as cli
from tuner.errors import UsageError
from tuner.record.events import CHECKPOINT, RESULT, TRIAL_STARTED
from tuner.record.journal import read
from tuner.results.results import Results
from tuner.search.run import resume_experiment

HERE = Path(__file__).parent
LIMIT_S = 180
TIMES = ("images_per_s", "epoch_s", "memory_mib", "peak_memory_mib")  # that no run has twice


def spec(folder, *, epochs=4, **fields):
    """A search on digits whose 7th epoch, of all trials together, waits for the gate."""
    return {
        "name": "gated",
        "trainable": "faulty:Gated",
        "training": {
            "model": "cnn",
            "dataset": "digits",
            "width": 4,
            "epochs": epochs,
            "gate": str(folder),
            "gate_at": 7,
        },
        "search": {"space": {"lr": "loguniform(1e-2, 1)", "batch_size": "choice([128, 256])"}},
        "scheduler": {"max_t": 4, "grace_period": 1, "reduction_factor": 2},
        "num_samples": 5,
        "seed": 7,
        "storage": str(folder / "results"),
        **fields,
    }


@pytest.fixture
def start(tmp_path):
    """Starts the real `tuner run` in a process group of its own, as a shell does."""
    processes = []

    def begin(**fields):
        path = tmp_path / "gated.json"
        path.write_text(json.dumps(spec(tmp_path, **fields)))
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}
        process = subprocess.Popen(
            [sys.executable, "-m", "tuner", "run", str(path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=tmp_path,
            start_new_session=True,
        )
        processes.append(process)
        return process

    yield begin
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.communicate()


def wait_for(condition, process=None):
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        if process is not None and process.poll() is not None:
            raise AssertionError(f"ended with {process.returncode}: {process.communicate()}")
        time.sleep(0.05)


def at_the_gate(folder):
    steps = folder / "steps"
    return lambda: steps.exists() and steps.stat().st_size >= 7


def open_gate(folder):
    (folder / "open").touch()


def assert_sound(folder, trials):
    """What the contract says of every journal, resumed or not."""
    events = list(read(folder))
    ids = [e["trial_id"] for e in events if e["event"] == TRIAL_STARTED]
    assert sorted(set(ids)) == [f"{number:05}" for number in range(trials)]
    for trial_id in set(ids):
        mine = [e for e in events if e.get("trial_id") == trial_id]
        epochs = [e["epoch"] for e in mine if e["event"] == RESULT]
        assert epochs == list(range(1, len(epochs) + 1))
        saved = {e["epoch"] for e in mine if e["event"] == CHECKPOINT}
        assert saved == set(epochs)
        starts = [e["config"] for e in mine if e["event"] == TRIAL_STARTED]
        assert all(config == starts[0] for config in starts)
    for trial in Results(folder).trials.values():
        assert trial.status in ("completed", "stopped")
        kept = {int(p.name) for p in (folder / "trials" / trial.trial_id / "checkpoints").iterdir()}
        assert kept == {Results(folder).best_epoch(trial), trial.last_epoch}


def story(folder):
    """All that the same seed decides."""
    return {
        trial.trial_id: (
            trial.config,
            trial.status,
            [
                (report.epoch, {k: v for k, v in report.metrics.items() if k not in TIMES})
                for report in trial.results
            ],
        )
        for trial in Results(folder).trials.values()
    }


def test_a_signal_ends_it_and_a_resume_finishes_it(start, tmp_path, ray_here):
    process = start(max_concurrent=2, num_samples=3, epochs=12, scheduler="none")
    folder = tmp_path / "results" / "gated"
    wait_for(at_the_gate(tmp_path), process)
    os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C in a terminal does
    open_gate(tmp_path)
    stdout, stderr = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130, stderr
    assert stdout == ""
    assert stderr.splitlines()[-1].startswith("error: SIGINT ended the search; go on with: ")
    assert stderr.splitlines()[-1].endswith(f"resume {folder}") or "resume gated" in stderr
    assert "Traceback" not in stderr
    told = list(read(folder))
    assert (told[-1]["event"], told[-1]["status"]) == ("experiment_ended", "interrupted")
    started = {e["trial_id"] for e in told if e["event"] == TRIAL_STARTED}
    ended = {e["trial_id"]: e["status"] for e in told if e["event"] == "trial_ended"}
    assert started == set(ended)
    assert "interrupted" in ended.values()

    done = CliRunner().invoke(cli.cli, ["resume", str(folder)], standalone_mode=False)
    assert done.return_value == 0, done.stderr
    assert "gated: completed" in done.stdout
    assert_sound(folder, trials=3)


def test_after_a_kill_the_story_is_that_of_a_run_without_one(start, tmp_path, searched):
    (tmp_path / "whole").mkdir()
    open_gate(tmp_path / "whole")
    whole = searched(**{**spec(tmp_path / "whole", max_concurrent=1), "name": "whole"})

    process = start(max_concurrent=1)
    folder = tmp_path / "results" / "gated"
    wait_for(at_the_gate(tmp_path), process)
    with pytest.raises(UsageError, match=f"another driver: pid {process.pid}"):
        resume_experiment(folder)
    below = children(process.pid)
    assert below
    process.kill()
    process.communicate()
    wait_for(lambda: not any(map(is_alive, below)))
    before = Results(folder)
    assert before.status == "interrupted"
    assert sum(len(trial.results) for trial in before.trials.values()) == 6

    open_gate(tmp_path)
    resumed = resume_experiment(folder)
    assert_sound(folder, trials=5)
    assert story(folder) == story(whole.folder)
    ours, theirs = resumed.get_best_trial(), whole.get_best_trial()
    assert (ours.trial_id, resumed.best_epoch()) == (theirs.trial_id, whole.best_epoch())
    starts = [e for e in read(folder) if e["event"] == "experiment_started"]
    assert [event["resumed"] for event in starts] == [False, True]
    assert_boards_go_up(folder)


def assert_boards_go_up(folder):
    """TensorBoard shows each epoch of a resumed trial once."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for trial in Results(folder).trials.values():
        board = EventAccumulator(str(folder / "trials" / trial.trial_id)).Reload()
        steps = [point.step for point in board.Scalars("val/loss")]
        assert all(a < b for a, b in itertools.pairwise(steps))
        assert steps == [report.epoch for report in trial.results]


def children(pid):
    """The pids of all processes below `pid`."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(entry.name)] = int(
                (entry / "stat").read_text().rpartition(")")[2].split()[1]
            )
        except OSError:
            continue
    found, todo = set(), {pid}
    while todo:
        todo = {child for child, parent in parents.items() if parent in todo} - found
        found |= todo
    return found


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
