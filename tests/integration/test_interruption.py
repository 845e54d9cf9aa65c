"""Whatever ends a search, a resume goes on as if it had not been interrupted."""

import fcntl
import itertools
import json
import os
import pty
import shutil
import signal
import subprocess
import termios
import time
from contextlib import suppress
from functools import partial

import driven
import psutil
import pytest
from gated import LIMIT_S, assert_sound, at_the_gate, open_gate, spec, story, wait_for
from waiting import is_alive

from tuner.errors import UsageError
from tuner.experiment.events import RESULT, TRIAL_ENDED, TRIAL_STARTED
from tuner.experiment.reading import read
from tuner.experiment.results.results import Results
from tuner.search.run import resume_experiment, run_experiment
from tuner.spec.experiment import build_spec


@pytest.fixture
def start(tmp_path):
    """Starts the real `tuner run` in a process group of its own, as a shell does."""
    processes = []

    def begin(
        *,
        stdin=None,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        first=None,
        **fields,
    ):
        (tmp_path / "gated.json").write_text(json.dumps(spec(tmp_path, **fields)))
        streams = {"stdin": stdin, "stdout": stdout, "stderr": stderr, "text": True}
        command = ("run", "gated.json")
        begun = driven.start(*command, cwd=tmp_path, preexec_fn=first, **streams)
        processes.append(begun)
        return begun

    yield begin
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.wait()


@pytest.mark.slow
def test_resume_after_sigint_completes_search(start, tmp_path, ray_here):
    process = start(max_concurrent=2, num_samples=3, epochs=12, scheduler="none")
    folder = tmp_path / "results/gated"
    wait_for(at_the_gate(tmp_path), process)
    os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C in a terminal does
    open_gate(tmp_path)
    stdout, stderr = process.communicate(timeout=LIMIT_S)
    assert stdout == ""
    last = stderr.splitlines()[-1]
    assert last.startswith("error: SIGINT ended the search; go on with: ")
    assert last.endswith(f"resume {folder}") or "resume gated" in last
    assert "Traceback" not in stderr
    assert find_end(process, folder) == (130, "interrupted")
    events = list(read(folder))
    started = {e["trial_id"] for e in events if e["event"] == TRIAL_STARTED}
    ended = {e["trial_id"]: e["status"] for e in events if e["event"] == TRIAL_ENDED}
    assert started == set(ended)
    assert "interrupted" in ended.values()

    done = driven.call("resume", folder)
    assert done.return_value == 0, done.stderr
    assert "gated: completed" in done.stdout
    assert_sound(folder, trials=3)


def find_end(process, folder):
    """How it ended: the exit code, and the status that the journal has."""
    process.wait(LIMIT_S)
    *_, last = read(folder)
    return process.returncode, last["status"]


@pytest.mark.slow
def test_repeated_sigterm_acts_as_first(start, tmp_path):
    process = start(max_concurrent=1)
    wait_for(at_the_gate(tmp_path), process)
    for _ in range(3):
        process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
    open_gate(tmp_path)
    _, stderr = process.communicate(timeout=LIMIT_S)
    assert find_end(process, tmp_path / "results/gated") == (143, "interrupted")
    last = stderr.splitlines()[-1]
    assert last.startswith("error: SIGTERM ended the search; go on with: ")
    assert "Traceback" not in stderr


@pytest.mark.slow
def test_closed_terminal_interrupts_search(start, tmp_path):
    terminal, its_end = pty.openpty()
    take = partial(fcntl.ioctl, its_end, termios.TIOCSCTTY, 0)
    process = start(
        max_concurrent=1, stdin=its_end, stdout=its_end, stderr=its_end, first=take
    )
    os.close(its_end)
    os.set_blocking(terminal, False)

    def is_at_the_gate():
        with suppress(BlockingIOError):
            # A terminal that nobody reads holds up who writes
            os.read(terminal, 1 << 16)
        return at_the_gate(tmp_path)()

    wait_for(is_at_the_gate, process)
    os.close(terminal)
    open_gate(tmp_path)
    assert find_end(process, tmp_path / "results/gated") == (129, "interrupted")


@pytest.mark.slow
def test_sigterm_while_ray_starts_prints_one_error(start, tmp_path):
    process = start()
    driver = psutil.Process(process.pid)
    wait_for(lambda: "raylet" in [child.name() for child in driver.children()], process)
    process.send_signal(signal.SIGTERM)
    stdout, stderr = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, stdout) == (143, "")
    begun, ended = stderr.splitlines()
    assert begun.startswith("gated: 5 trials")
    assert ended == "error: ended by SIGTERM while no search was running"
    assert not (tmp_path / "results").exists()


def test_resume_after_kill_equals_uninterrupted_run(start, tmp_path, gated_whole):
    process = start(max_concurrent=1)
    folder = tmp_path / "results/gated"
    wait_for(at_the_gate(tmp_path), process)
    with pytest.raises(UsageError, match=f"another driver: pid {process.pid}"):
        resume_experiment(folder)
    below = [
        child.pid for child in psutil.Process(process.pid).children(recursive=True)
    ]
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
    assert story(folder) == story(gated_whole.folder)
    ours = resumed.get_best_trial()
    theirs = gated_whole.get_best_trial()
    assert (ours.trial_id, resumed.best_epoch()) == (
        theirs.trial_id,
        gated_whole.best_epoch(),
    )
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


# --- a resume with a change


@pytest.fixture
def short(tmp_path, ray_here):
    """The folder of a search whose trials last 2 epochs, and a copy of it."""
    open_gate(tmp_path)
    scheduler = {"max_t": 2, "grace_period": 1, "reduction_factor": 2}
    fields = spec(tmp_path, scheduler=scheduler, num_samples=4, max_concurrent=1)
    folder = run_experiment(build_spec(fields)).folder
    return folder, shutil.copytree(folder, tmp_path / "copies/gated")


def kill_resume(folder, directory, *changes):
    """Resume the search with the changes, and kill it in its second step."""
    (directory / "open").unlink()
    # So that the second step from here waits at the gate
    (directory / "steps").write_text("." * 5)
    process = driven.start("resume", folder, *changes, "--trust", cwd=directory)
    wait_for(at_the_gate(directory), process)
    process.kill()
    process.wait()


@pytest.mark.slow
def test_resume_of_changes_after_kill_equals_uninterrupted_run(short, tmp_path):
    """With longer trials, more of them, and a wider space."""
    folder, copy = short
    begun = story(folder)
    completed = {t for t, (_, status, _) in begun.items() if status == "completed"}
    assert 1 < len(completed) < 4
    changes = {
        "scheduler.max_t": 4,
        "search.space.lr": "loguniform(1e-4, 1)",
        "num_samples": 7,
    }
    whole = resume_experiment(copy, changes=changes)
    kill_resume(folder, tmp_path, *(f"{k}={value}" for k, value in changes.items()))

    open_gate(tmp_path)
    resumed = resume_experiment(folder)
    assert_sound(folder, trials=7)
    assert story(folder) == story(whole.folder)
    assert resumed.spec.epochs == whole.spec.epochs == 4
    assert max(trial.last_epoch for trial in resumed.trials.values()) == 4
    assert min(trial.config["lr"] for trial in resumed.trials.values()) < 1e-2
    events = list(read(folder))
    before = next(n for n, e in enumerate(events) if e["event"] == "experiment_ended")
    changed = [e for e in events[before:] if e["event"] in (RESULT, TRIAL_ENDED)]
    # Those that were stopped stay so
    assert {e["trial_id"] for e in changed} & begun.keys() == completed
    # Nothing is left: no driver has begun
    assert resume_experiment(folder).history.resumed == 2
