"""The power of the storage's disk is cut, or its folder vanishes, in the middle of a search."""

import contextlib
import json
import shutil
import subprocess
import time

import driven
import psutil
import pytest
from gated import LIMIT_S, assert_sound, at_the_gate, open_gate, spec, story, wait_for
from waiting import is_alive

from benchmarks.power_cut import Disk
from tuner.experiment.reading import read

pytestmark = pytest.mark.slow

SYNCED_S = 10  # by then what was written is on the disk, on busy machines too


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


def test_a_power_cut_loses_nothing_that_was_reported_seconds_before(
    disk, at_gate, tmp_path, gated_whole
):
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


@pytest.mark.parametrize("vanish", [shutil.rmtree, lambda folder: folder.rename(f"{folder}-2")])
def test_a_folder_that_vanishes_ends_the_search_and_does_not_come_back(vanish, at_gate, tmp_path):
    folder = tmp_path / "results" / "gated"
    vanish(folder)
    stderr = at_gate.communicate(timeout=LIMIT_S)[1]
    assert at_gate.returncode == 1
    error = stderr.splitlines()[-1]
    assert error.startswith(f"error: {folder} was moved or removed while the search ran")
    assert not folder.exists()
    if (moved := folder.with_name("gated-2")).exists():
        open_gate(tmp_path)
        assert driven.call("resume", moved).return_value == 0
        assert_sound(moved, trials=5)
