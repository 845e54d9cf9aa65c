"""A storage that is full, or read-only, in the middle of a search: no trial is to blame for it."""

import contextlib
import os
import subprocess
import threading

import pytest
from driven import call
from gated import assert_sound, at_the_gate, open_gate, spec, story, wait_for

from tuner.errors import ExperimentError
from tuner.experiment.results.results import Results
from tuner.search.run import run_experiment
from tuner.spec.experiment import build_spec

pytestmark = pytest.mark.slow

DISK = "4m"


def mount(*arguments):
    subprocess.run(["mount", *map(str, arguments)], check=True, capture_output=True)


@pytest.fixture
def disk(tmp_path):
    """A small disk of its own."""
    folder = tmp_path / "results"
    folder.mkdir()
    try:
        mount("-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", folder)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs the right to mount a disk; tests/trial/ has what goes without")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextlib.contextmanager
def full(folder):
    with (folder / "ballast").open("wb", buffering=0) as ballast, contextlib.suppress(OSError):
        while ballast.write(bytes(1024)):
            pass
    yield "No space left on device"
    (folder / "ballast").unlink()


@contextlib.contextmanager
def read_only(folder):
    trials = folder / "gated" / "trials"
    mount("--bind", trials, trials)
    mount("-o", "remount,bind,ro", trials)
    yield "Read-only file system"
    subprocess.run(["umount", str(trials)], check=True)


@pytest.mark.parametrize("fault", [full, read_only])
def test_the_search_ends_with_one_message_and_goes_on_where_it_was(
    fault, disk, gated_whole, tmp_path
):
    fields = spec(tmp_path, max_concurrent=1)
    with contextlib.ExitStack() as mended:
        reasons = []

        def strike():
            wait_for(at_the_gate(tmp_path))
            reasons.append(mended.enter_context(fault(disk)))
            open_gate(tmp_path)

        thread = threading.Thread(target=strike)
        thread.start()
        with pytest.raises(ExperimentError) as caught:
            run_experiment(build_spec(fields))
        thread.join()
        message = str(caught.value)
        assert message.startswith(f"cannot write {disk / 'gated'}{os.sep}")
        assert f": {reasons[0]}; then go on with: tuner resume " in message
        assert "\n" not in message
        before = Results(disk / "gated")
        assert before.status == "interrupted"
        assert before.counts["failed"] == 0
    done = call("resume", disk / "gated")
    assert done.return_value == 0, done.stderr
    assert_sound(disk / "gated", trials=5)
    assert story(disk / "gated") == story(gated_whole.folder)
