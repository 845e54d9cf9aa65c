import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import START, Writer, make_folder
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_multiplexer import EventMultiplexer

from tuner.history import fold
from tuner.reporting import tensorboard
from tuner.reporting.tensorboard import TensorBoardWriter, logdir, tag_of

METRICS = {"train_loss": 1.5, "val_loss": 1.25, "val_accuracy": 0.5, "lr": 0.125, "epoch_s": 2.0}


def result(number, epoch, **metrics):
    return {
        "event": "result",
        "time": START + epoch,
        "trial_id": f"{number:05}",
        "epoch": epoch,
        "metrics": metrics,
    }


def points(folder, number, tag):
    """(step, value) of every point of a tag as TensorBoard reads them."""
    run = EventAccumulator(str(logdir(folder) / f"{number:05}"), size_guidance={"scalars": 0})
    run.Reload()
    return [(point.step, point.value) for point in run.Scalars(tag)]


def writer_of(folder, *, metric="val_accuracy", mode="max", earlier=()):
    trials = fold(earlier).trials
    return TensorBoardWriter(folder, metric=metric, mode=mode, earlier=trials)


@pytest.fixture
def folder(tmp_path):
    return make_folder(tmp_path / "digits")


def test_runs_are_trials_and_tags_are_grouped(folder):
    writer = writer_of(folder)
    for number in (1, 2):
        writer(result(number, 1, **METRICS))
    runs = EventMultiplexer().AddRunsFromDirectory(str(logdir(folder)))
    runs.Reload()
    assert sorted(runs.Runs()) == ["00001", "00002"]
    assert sorted(runs.Runs()["00001"]["scalars"]) == [
        "best/val_accuracy",
        "system/epoch_s",
        "train/loss",
        "train/lr",
        "val/accuracy",
        "val/loss",
    ]


def test_points_have_the_epoch_as_step_and_the_events_time(folder):
    writer = writer_of(folder)
    for epoch, value in ((1, 0.5), (2, 0.75), (3, 0.625)):
        writer(result(1, epoch, val_accuracy=value))
    run = EventAccumulator(str(logdir(folder) / "00001")).Reload()
    scalars = run.Scalars("val/accuracy")
    assert [(p.step, p.wall_time, p.value) for p in scalars] == [
        (1, START + 1, 0.5),
        (2, START + 2, 0.75),
        (3, START + 3, 0.625),
    ]
    assert points(folder, 1, "best/val_accuracy") == [(1, 0.5), (2, 0.75), (3, 0.75)]


def test_the_best_goes_down_where_the_objective_does(tmp_path):
    folder = tmp_path / "digits"
    writer = writer_of(folder, metric="val_loss", mode="min")
    for epoch, value in ((1, 0.5), (2, 0.75), (3, 0.25)):
        writer(result(1, epoch, val_loss=value))
    assert points(folder, 1, "best/val_loss") == [(1, 0.5), (2, 0.5), (3, 0.25)]


def test_a_report_is_readable_as_soon_as_it_is_taken(folder):
    writer = writer_of(folder)
    for epoch in (1, 2):
        writer(result(1, epoch, val_loss=1.0))
        assert len(points(folder, 1, "val/loss")) == epoch


def test_a_resume_goes_on_in_the_run_without_repeated_points(folder):
    story = Writer(folder)
    story.trial(1, [0.5, 0.75], end=None)
    story.kill()
    writer = writer_of(folder)
    for event in story.events:
        writer(event)
    writer(result(1, 3, val_accuracy=0.25))  # was never journaled: the driver was killed
    again = writer_of(folder, earlier=story.events)
    again(story.events[0] | {"resumed": True})
    for epoch, value in ((3, 0.5), (4, 0.625)):
        again(result(1, epoch, val_accuracy=value) | {"time": START + 100 + epoch})
    assert len(list((logdir(folder) / "00001").iterdir())) == 2
    assert points(folder, 1, "val/accuracy") == [(1, 0.5), (2, 0.75), (3, 0.5), (4, 0.625)]
    assert points(folder, 1, "best/val_accuracy")[2:] == [(3, 0.75), (4, 0.75)]


def test_a_resume_within_the_second_goes_on_in_the_file(folder):
    for epoch in (1, 2):
        writer_of(folder)(result(1, epoch, val_loss=1.0) | {"time": START})
    assert len(list((logdir(folder) / "00001").iterdir())) == 1
    assert points(folder, 1, "val/loss") == [(1, 1.0), (2, 1.0)]


def test_a_thousand_trials_hold_no_descriptor_and_no_thread(folder):
    import threading

    writer = writer_of(folder)
    before, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    for number in range(1000):
        writer(result(number, 1, val_loss=1.0))
    assert len(os.listdir("/proc/self/fd")) == before
    assert threading.active_count() == threads


def test_torch_stays_out_of_the_driver_and_can_still_be_imported(folder):
    code = """
        import sys
        from pathlib import Path
        from tuner.reporting.tensorboard import TensorBoardWriter
        TensorBoardWriter(Path(sys.argv[1]), metric="loss", mode="min", earlier={})
        assert "tensorboardX" in sys.modules
        print("torch" in sys.modules)
        import importlib.util
        print(importlib.util.find_spec("torch") is not None)
    """
    code = "\n".join(line.strip() for line in code.splitlines())
    told = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True)
    assert told.stdout.split() == ["False", "True"], told.stderr


def test_a_disk_that_fails_is_told_once_and_stops_nothing(folder, caplog, monkeypatch):
    def full(path, data):
        raise OSError(28, "No space left on device")

    writer = writer_of(folder)
    monkeypatch.setattr(tensorboard, "_append", full)
    for epoch in (1, 2, 3):
        writer(result(1, epoch, val_loss=1.0))
    assert caplog.text.count("No space left on device") == 1


@given(metric=st.text(min_size=1))
def test_a_tag_holds_only_what_tensorboard_takes(metric):
    tag = tag_of(metric, "val_accuracy")
    group, _, rest = tag.partition("/")
    assert group in ("train", "val", "system")
    assert all(char.isalnum() or char in "-/_." for char in rest)


def test_an_objective_that_names_no_split_has_its_own_group():
    assert tag_of("accuracy", "accuracy") == "objective/accuracy"
    assert tag_of("accuracy", "loss") == "system/accuracy"


def test_serving_shows_the_trials_to_this_machine_only(folder, monkeypatch):
    called = []
    monkeypatch.setattr(os, "execv", lambda path, command: called.append((path, command)))
    tensorboard.serve(folder, port=7007)
    (path, command) = called[0]
    assert path == sys.executable
    assert command[command.index("--logdir") + 1] == str(folder / "trials")
    assert command[command.index("--host") + 1] == "127.0.0.1"
    assert command[command.index("--port") + 1] == "7007"
