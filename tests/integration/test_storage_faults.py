"""The storage's disk is full, loses its power, or vanishes in the middle of a search."""

import contextlib
import json
import os
import subprocess
import threading
import time

import driven
import psutil
import pytest
from gated import assert_sound, at_the_gate, open_gate, spec, story, wait_for
from waiting import is_alive

from benchmarks.power_cut import Disk
from tuner.errors import ExperimentError
from tuner.experiment.reading import read
from tuner.experiment.results.results import Results
from tuner.search.run import run_experiment
from tuner.spec.experiment import build_spec

pytestmark = pytest.mark.slow

DISK = "4m"
SYNCED_S = 10  # by then what was written is on the disk, on busy machines too


@pytest.fixture
def small_disk(tmp_path):
    """A small disk of its own."""
    folder = tmp_path / "results"
    folder.mkdir()
    try:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(folder)]
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip(
            "needs the right to mount a disk; tests/trial/ has what goes without"
        )
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextlib.contextmanager
def full(folder):
    with (
        (folder / "ballast").open("wb", buffering=0) as ballast,
        contextlib.suppress(OSError),
    ):
        while ballast.write(bytes(1024)):
            pass
    yield "No space left on device"
    (folder / "ballast").unlink()


def test_full_disk_ends_search_and_resume_continues(small_disk, gated_whole, tmp_path):
    fields = spec(tmp_path, max_concurrent=1)
    with contextlib.ExitStack() as mended:
        reasons = []

        def strike():
            wait_for(at_the_gate(tmp_path))
            reasons.append(mended.enter_context(full(small_disk)))
            open_gate(tmp_path)

        thread = threading.Thread(target=strike)
        thread.start()
        with pytest.raises(ExperimentError) as caught:
            run_experiment(build_spec(fields))
        thread.join()
        message = str(caught.value)
        assert message.startswith(f"cannot write {small_disk / 'gated'}{os.sep}")
        assert f": {reasons[0]}; then go on with: tuner resume " in message
        assert "\n" not in message
        before = Results(small_disk / "gated")
        assert before.status == "interrupted"
        assert before.counts["failed"] == 0
    done = driven.call("resume", small_disk / "gated")
    assert done.return_value == 0, done.stderr
    assert_sound(small_disk / "gated", trials=5)
    assert story(small_disk / "gated") == story(gated_whole.folder)


@pytest.fixture
def disk(tmp_path):
    """The storage of the search, on a disk of its own."""
    made = Disk(tmp_path / "image", tmp_path / "results")
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(made.mounted())
        except OSError as error:
            pytest.skip(f"needs the right to mount a disk: {error}")
        yield made


@pytest.fixture
def at_gate(tmp_path):
    """The process of a search that waits in its 7th epoch."""
    (tmp_path / "gated.json").write_text(json.dumps(spec(tmp_path, max_concurrent=1)))
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = driven.start("run", "gated.json", cwd=tmp_path, **pipes)
    wait_for(at_the_gate(tmp_path), process)
    yield process
    end_all(process)


def end_all(driver):
    """Kill the driver and all that it has started, as a power cut does."""
    below = []
    if driver.poll() is None:
        below = psutil.Process(driver.pid).children(recursive=True)
        driver.kill()
    for process in below:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    driver.communicate()
    wait_for(lambda: not any(is_alive(process.pid) for process in below))


def test_power_cut_keeps_earlier_reports(disk, at_gate, tmp_path, gated_whole):
    folder = disk.at / "gated"
    time.sleep(SYNCED_S)
    before = list(read(folder))
    disk.cut()
    end_all(at_gate)
    disk.restore()
    assert list(read(folder))[: len(before)] == before
    open_gate(tmp_path)
    begun = (tmp_path / "steps").stat().st_size
    done = driven.call("resume", folder)
    assert done.return_value == 0, done.stderr
    assert "going back" not in done.stderr
    assert_sound(folder, trials=5)
    assert story(folder) == story(gated_whole.folder)
    whole = sum(len(trial.results) for trial in gated_whole.trials.values())
    assert (tmp_path / "steps").stat().st_size - begun == whole - 6
