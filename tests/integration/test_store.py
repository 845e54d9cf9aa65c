"""Searches whose storage is an S3: what is killed is resumed on another machine, from it alone."""

import json
import signal
import time
from pathlib import Path

import commands
import pytest
from stores import needs_s3

from tuner.experiment.remote.objects import Objects
from tuner.experiment.remote.segments import fetch
from tuner.experiment.results.listing import list_experiments
from tuner.experiment.results.results import load_results
from tuner.places import ROOT

pytestmark = needs_s3

HERE = Path(__file__).parent
PATIENCE_S = 180
TRIALS = ("00000", "00001", "00002")


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Makes this machine another one, where nothing of the storage has been yet."""
    count = iter(range(100))

    def move():
        monkeypatch.setenv(ROOT, str(tmp_path / f"machine{next(count)}"))

    move()
    return move


def tuner(*arguments):
    done = commands.tuner(*arguments, timeout=PATIENCE_S, cwd=HERE)
    assert done.returncode == 0, done.stderr
    return done


def events_in(url):
    return [json.loads(line) for line in fetch(Objects(url)).data.splitlines()]


def reports_in(url):
    return [event for event in events_in(url) if event["event"] == "result"]


@pytest.fixture
def spec(tmp_path):
    """The file of a spec for a trainable."""

    def write(trainable):
        fields = {
            "trainable": trainable,
            "search": {"space": {"x": "uniform(0.1, 1)"}},
            "objective": {"metric": "loss"},
            "scheduler": "none",
            "num_samples": 3,
        }
        (tmp_path / "spec.json").write_text(json.dumps(fields))
        return str(tmp_path / "spec.json")

    return write


@pytest.fixture
def begun(s3, elsewhere, tmp_path, spec):
    """Starts a search of three trials and returns its driver once it has reported four times."""
    drivers = []

    def begin(trainable, *more):
        search = ["run", spec(trainable), "--storage", s3, "--name", "far"]
        with (tmp_path / "said").open("w") as stderr_file:
            driver = commands.start(*search, *more, cwd=HERE, stderr=stderr_file)
        drivers.append(driver)
        deadline = time.monotonic() + PATIENCE_S
        while len(reports_in(f"{s3}/far")) < 4:
            assert time.monotonic() < deadline
            assert driver.poll() is None, (tmp_path / "said").read_text()
            time.sleep(0.2)
        return driver

    yield begin
    for driver in drivers:
        driver.kill()
        driver.wait()


@pytest.mark.slow
def test_resume_from_store_after_kill_needs_no_local_files(s3, elsewhere, begun):
    driver = begun("saving:Slow", "training.epochs=5")
    elsewhere()
    assert load_results("far", s3).status == "running"
    driver.kill()
    driver.wait()
    before = reports_in(f"{s3}/far")
    results = load_results("far", s3)
    assert results.status == "interrupted"
    saved = {
        i: max((c.epoch for c in t.checkpoints), default=0)
        for i, t in results.trials.items()
    }

    tuner("resume", "far", "--storage", s3)
    reports = reports_in(f"{s3}/far")
    assert reports[: len(before)] == before
    reported = [(e["trial_id"], e["epoch"]) for e in reports]
    assert sorted(reported) == [(t, epoch) for t in TRIALS for epoch in range(1, 6)]
    assert all(e["metrics"]["counted"] == e["epoch"] for e in reports)
    for trial_id in TRIALS:
        # Each process has gone on from what the one before had saved
        for event in reports[len(before) :]:
            if event["trial_id"] == trial_id:
                assert event["metrics"]["trained"] <= event["epoch"] - saved.get(
                    trial_id, 0
                )

    elsewhere()
    results = load_results("far", s3)
    assert results.status == "completed"
    assert results.best_checkpoint().path.exists()
    listed = [entry.as_dict() for entry in list_experiments(s3)]
    assert [(e["name"], e["folder"], e["status"]) for e in listed] == [
        ("far", f"{s3}/far", "completed")
    ]
    names = Objects(f"{s3}/far").list_names("trials")
    for trial_id in TRIALS:
        paths = [
            name.split("/")[2:] for name in names if name.split("/")[1] == trial_id
        ]
        assert len({parts[1] for parts in paths if parts[0] == "checkpoints"}) in (1, 2)
        assert any(parts[0].startswith("events.") for parts in paths)
    assert b"epoch 5" in Objects(f"{s3}/far").read("trials/00002/log.txt")


@pytest.mark.nodes
def test_suspended_driver_ends_after_takeover(s3, elsewhere, begun):
    epochs = 20  # of 0.3 s each: it is far from its end when it is held up
    driver = begun("saving:Slow", f"training.epochs={epochs}")
    driver.send_signal(signal.SIGSTOP)
    elsewhere()
    try:
        stderr = tuner("resume", "far", "--storage", s3).stderr
    finally:
        driver.send_signal(signal.SIGCONT)
    assert "waiting 15 s to see whether it is alive" in stderr
    assert driver.wait(timeout=PATIENCE_S) == 1
    reported = [(e["trial_id"], e["epoch"]) for e in reports_in(f"{s3}/far")]
    assert sorted(reported) == [
        (t, epoch) for t in TRIALS for epoch in range(1, epochs + 1)
    ]
    assert load_results("far", s3).status == "completed"
