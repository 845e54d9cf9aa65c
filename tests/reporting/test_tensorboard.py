"""The event files of a search, as TensorBoard reads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import START, Writer, make_folder
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_multiplexer import EventMultiplexer
from tensorboard.plugins.hparams import api_pb2, metadata

from tuner.experiment.history import History
from tuner.reporting import tensorboard
from tuner.reporting.tensorboard import TensorBoardWriter, logdir, tag_of
from tuner.spec.experiment import build_spec

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


def started(number, **config):
    return {
        "event": "trial_started",
        "time": START,
        "trial_id": f"{number:05}",
        "config": config or {"lr": 0.1},
    }


def ended(number, status):
    return {
        "event": "trial_ended",
        "time": START + 60,
        "trial_id": f"{number:05}",
        "status": status,
    } | ({"error": {"kind": "oom", "message": "m"}} if status == "failed" else {})


def writer_of(folder, *, metric="val_accuracy", mode="max", earlier=(), space=None, **fields):
    """A writer for the classifier that ships, notified as a driver notifies its observers."""
    folder.mkdir(parents=True, exist_ok=True)
    spec = build_spec(
        {
            "name": folder.name,
            "storage": str(folder.parent),
            "training": {"model": "cnn", "dataset": "digits"},
            "search": {"space": space or {"lr": "loguniform(0.01, 1)"}},
            "objective": {"metric": metric, "mode": mode},
            "num_samples": 4,
        }
        | fields
    )
    history = History(spec.objective)
    for event in earlier:
        history.apply(event)
    writer = TensorBoardWriter(spec, history)

    def notify(event):
        history.apply(event)
        writer(event)

    return notify


def hparams(folder, number):
    """(experiment, session start, session end) of a trial, as TensorBoard reads them."""
    run = EventAccumulator(str(logdir(folder) / f"{number:05}")).Reload()
    contents = run.PluginTagToContent(metadata.PLUGIN_NAME)
    return (
        metadata.parse_experiment_plugin_data(contents[metadata.EXPERIMENT_TAG]),
        metadata.parse_session_start_info_plugin_data(contents[metadata.SESSION_START_INFO_TAG]),
        metadata.parse_session_end_info_plugin_data(contents[metadata.SESSION_END_INFO_TAG]),
    )


def status_of(folder, number):
    """The status in TensorBoard's own words and in ours."""
    _, start, end = hparams(folder, number)
    return api_pb2.Status.Name(end.status), start.hparams["status"].string_value


@pytest.fixture
def folder(tmp_path):
    return make_folder(tmp_path / "digits")


def test_writer_groups_tags_by_trial(folder):
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


def test_writer_points_have_epoch_and_time(folder):
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


def test_writer_resume_repeats_no_point(folder):
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
    assert len(list((logdir(folder) / "00001").iterdir())) == 3
    assert points(folder, 1, "val/accuracy") == [(1, 0.5), (2, 0.75), (3, 0.5), (4, 0.625)]
    assert points(folder, 1, "best/val_accuracy")[2:] == [(3, 0.75), (4, 0.75)]


def test_writer_on_full_disk_warns_once(folder, caplog, monkeypatch):
    def full(path, data):
        raise OSError(28, "No space left on device")

    writer = writer_of(folder)
    monkeypatch.setattr(tensorboard, "append", full)
    for epoch in (1, 2, 3):
        writer(result(1, epoch, val_loss=1.0))
    assert caplog.text.count("No space left on device") == 1


@given(metric=st.text(min_size=1))
def test_tag_of_any_metric_is_valid(metric):
    tag = tag_of(metric, "val_accuracy")
    group, _, rest = tag.partition("/")
    assert group in ("train", "val", "system")
    assert all(char.isalnum() or char in "-/_." for char in rest)


def test_writer_row_has_the_seed(folder):
    """That of the experiment, its own, or what its config says: each in a column of text."""
    search = {"strategy": "grid", "space": {"lr": "uniform(0, 1)"}, "seeds": [3, 14]}
    writer = writer_of(folder, search=search)
    writer(started(1) | {"seed": 14})
    experiment, start, _ = hparams(folder, 1)
    column = experiment.hparam_infos[1]
    assert (column.name, column.differs) == ("seed", True)
    assert list(column.domain_discrete) == [" 3", "14"]
    assert start.hparams["seed"].string_value == "14"
    writer_of(folder, seed=5)(started(2))
    experiment, start, _ = hparams(folder, 2)
    assert not experiment.hparam_infos[1].differs
    assert start.hparams["seed"].string_value == "5"
    writer_of(folder, space={"seed": "choice([8, 9])"})(started(3, seed=9))
    experiment, start, _ = hparams(folder, 3)
    assert [info.name for info in experiment.hparam_infos] == ["status", "seed"]
    assert start.hparams["seed"].string_value == "9"


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        ("completed", "STATUS_SUCCESS"),
        ("stopped", "STATUS_SUCCESS"),
        ("failed", "STATUS_FAILURE"),
        ("interrupted", "STATUS_UNKNOWN"),
    ],
)
def test_writer_row_shows_the_final_status(folder, status, shown):
    writer = writer_of(folder)
    writer(started(1))
    assert status_of(folder, 1) == ("STATUS_RUNNING", "running")
    writer(ended(1, status))
    assert status_of(folder, 1) == (shown, status)
    assert hparams(folder, 1)[2].end_time_secs == START + 60


def test_writer_resume_updates_every_status(folder):
    story = Writer(folder)
    story.trial(1, [0.5], end="stopped")
    story.trial(2, [0.5], end=None)
    story.kill()
    resumed = story.events[0] | {"resumed": True, "time": START + 30}
    writer = writer_of(folder, earlier=story.events)
    writer(resumed)
    assert status_of(folder, 1) == ("STATUS_SUCCESS", "stopped")
    assert status_of(folder, 2) == ("STATUS_UNKNOWN", "interrupted")
    again = started(2) | {"time": START + 31}
    writer(again)
    assert status_of(folder, 2) == ("STATUS_RUNNING", "running")
    assert hparams(folder, 2)[1].start_time_secs < START + 30
    writer(ended(2, "completed"))
    assert status_of(folder, 2) == ("STATUS_SUCCESS", "completed")


def test_writer_accepts_a_hyperparameter_called_status(folder):
    writer_of(folder, space={"status": "choice(['a', 'b'])"})(started(1, status="a"))
    start = hparams(folder, 1)[1]
    assert start.hparams["status"].string_value == "a"
    assert start.hparams["trial_status"].string_value == "running"
