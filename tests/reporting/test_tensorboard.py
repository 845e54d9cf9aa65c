"""The event files of a search, as TensorBoard reads them."""

import socket

import pytest
from fresh import ran
from hypothesis import given
from hypothesis import strategies as st
from synthetic import START, Writer, make_folder
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_multiplexer import EventMultiplexer
from tensorboard.plugins.hparams import api_pb2, metadata

from tuner.experiment.history import fold
from tuner.reporting import tensorboard
from tuner.reporting.tensorboard import (
    PREFIX,
    TensorBoardWriter,
    build_hparams_row,
    build_tag,
    find_logdir,
    find_text_columns,
)
from tuner.spec.experiment import build_spec
from tuner.spec.space.parsing import parse_space

METRICS = {
    "train_loss": 1.5,
    "val_loss": 1.25,
    "val_accuracy": 0.5,
    "lr": 0.125,
    "epoch_s": 2.0,
}


def result(number, epoch, **metrics):
    report = {
        "event": "result",
        "trial_id": f"{number:05}",
        "epoch": epoch,
        "metrics": metrics,
    }
    return report | {"time": START + epoch}


def points(folder, number, tag):
    """(step, value) of every point of a tag as TensorBoard reads them."""
    run = EventAccumulator(
        str(find_logdir(folder) / f"{number:05}"), size_guidance={"scalars": 0}
    )
    run.Reload()
    return [(point.step, point.value) for point in run.Scalars(tag)]


def started(number, **config):
    event = {"event": "trial_started", "time": START, "trial_id": f"{number:05}"}
    return event | {"config": config or {"lr": 0.1}}


def ended(number, status):
    event = {"event": "trial_ended", "time": START + 60, "trial_id": f"{number:05}"}
    return event | {"status": status}


def writer_of(folder, *, earlier=(), space=None, **fields):
    """A writer for the classifier that ships, notified as a driver notifies its observers."""
    folder.mkdir(parents=True, exist_ok=True)
    spec = build_spec(
        {
            "name": folder.name,
            "storage": str(folder.parent),
            "training": {"model": "cnn", "dataset": "digits"},
            "search": {"space": space or {"lr": "loguniform(0.01, 1)"}},
            "objective": {"metric": "val_accuracy", "mode": "max"},
            "num_samples": 4,
        }
        | fields
    )
    history = fold(earlier, spec.objective)
    writer = TensorBoardWriter(spec, history)

    def notify(event):
        history.apply(event)
        writer(event)

    return notify


def hparams(folder, number):
    """(session start, session end) of a trial, as TensorBoard reads them."""
    run = EventAccumulator(str(find_logdir(folder) / f"{number:05}")).Reload()
    contents = run.PluginTagToContent(metadata.PLUGIN_NAME)
    return (
        metadata.parse_session_start_info_plugin_data(
            contents[metadata.SESSION_START_INFO_TAG]
        ),
        metadata.parse_session_end_info_plugin_data(
            contents[metadata.SESSION_END_INFO_TAG]
        ),
    )


def status_of(folder, number):
    """The status in TensorBoard's own words and in ours."""
    start, end = hparams(folder, number)
    return api_pb2.Status.Name(end.status), start.hparams["status"].string_value


@pytest.fixture
def folder(tmp_path):
    return make_folder(tmp_path / "digits")


def test_writer_groups_tags_by_trial(folder):
    writer = writer_of(folder)
    for number in (1, 2):
        writer(result(number, 1, **METRICS))
    runs = EventMultiplexer().AddRunsFromDirectory(str(find_logdir(folder)))
    runs.Reload()
    assert sorted(runs.Runs()) == ["00001", "00002"]
    tags = " ".join(sorted(runs.Runs()["00001"]["scalars"]))
    assert (
        tags
        == "best/val_accuracy system/epoch_s train/loss train/lr val/accuracy val/loss"
    )


def test_writer_resume_repeats_no_point(folder):
    story = Writer(folder)
    story.trial(1, [0.5, 0.75], end=None)
    story.kill()
    writer = writer_of(folder)
    for event in story.events:
        writer(event)
    # Was never journaled: the driver was killed
    writer(result(1, 3, val_accuracy=0.25))
    again = writer_of(folder, earlier=story.events)
    again(story.events[0] | {"resumed": True})
    for epoch, value in ((3, 0.5), (4, 0.625)):
        again(result(1, epoch, val_accuracy=value) | {"time": START + 100 + epoch})
    assert len(list((find_logdir(folder) / "00001").iterdir())) == 3
    run = EventAccumulator(str(find_logdir(folder) / "00001")).Reload()
    assert run.Scalars("val/accuracy")[-1].wall_time == START + 104
    assert points(folder, 1, "val/accuracy") == [
        (1, 0.5),
        (2, 0.75),
        (3, 0.5),
        (4, 0.625),
    ]
    assert points(folder, 1, "best/val_accuracy")[2:] == [(3, 0.75), (4, 0.75)]


def test_users_code_gets_all_of_tensorboardx(tmp_path):
    """It accepts tensors of torch, and its messages do not clash with those of TensorBoard."""
    code = """
    import sys
    import tuner.reporting.tensorboard
    import tensorboardX, torch
    with tensorboardX.SummaryWriter(sys.argv[1]) as writer:
        writer.add_scalar("loss", torch.tensor(1.5), 1)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    print(EventAccumulator(sys.argv[1]).Reload().Scalars("loss")[0].value)
    print(tensorboardX.proto.event_pb2.__name__)
    """
    assert ran(code, tmp_path).stdout == "1.5\ntensorboardX.proto.event_pb2"


def test_writer_follows_no_link(folder, tmp_path, caplog):
    target = tmp_path / "target"
    run = find_logdir(folder) / "00001"
    target.write_text("kept")
    run.mkdir(parents=True)
    writer = writer_of(folder)
    (run / "tensorboard.partial").symlink_to(target)
    writer(started(1, lr=0.1))
    assert not caplog.text
    event = result(1, 1, val_loss=1.0)
    (run / f"{PREFIX}{int(event['time']):010}.{socket.gethostname()}").symlink_to(
        target
    )
    writer(event)
    assert "is a symbolic link" in caplog.text
    assert target.read_text() == "kept"


def test_writer_on_full_disk_warns_once(folder, caplog, monkeypatch):
    def refuse(path, data):
        raise OSError(28, "No space left on device")

    writer = writer_of(folder)
    monkeypatch.setattr(tensorboard, "append", refuse)
    for epoch in (1, 2, 3):
        writer(result(1, epoch, val_loss=1.0))
    assert caplog.text.count("No space left on device") == 1


@given(metric=st.text(min_size=1))
def test_tag_of_any_metric_is_valid(metric):
    tag = build_tag(metric, "val_accuracy")
    group, _, rest = tag.partition("/")
    assert group in ("train", "val", "metric", "system")
    assert all(char.isalnum() or char in "-/_." for char in rest)


def test_writer_row_has_the_seed_of_its_trial(folder):
    writer = writer_of(folder, seed=5)
    writer(started(1))
    writer(started(2) | {"seed": 14})
    writer(started(3, seed=9))
    seeds = [
        hparams(folder, number)[0].hparams["seed"].number_value for number in (1, 2, 3)
    ]
    assert seeds == [5, 14, 9]


@pytest.mark.parametrize(
    ("domain", "values"),
    [
        ("choice([None, 0.1])", [None, 0.1]),
        ("choice([1, True])", [True]),
        ("choice([True, False])", [True]),
        ("choice([16, 0.5])", [16, 0.5]),
        ("choice(['a', {'p': 'uniform(0, 1)'}])", ["a", {"p": 0.5}]),
        ("choice([{'p': uniform(0, 1)}, [1, 2]])", [{"p": 0.5}, [1, 2]]),
        ("uniform(0, 1)", [0.5]),
    ],
)
def test_hparams_row_has_one_type_a_column(snapshot, domain, values):
    texts = find_text_columns(parse_space({"x": domain}))
    snapshot.compare_value(
        [build_hparams_row({"x": x}, "running", texts) for x in values]
    )


def test_writer_resume_updates_every_status(folder):
    story = Writer(folder)
    story.trial(1, [0.5], end="stopped")
    story.trial(2, [0.5], end=None)
    story.kill()
    writer = writer_of(folder, earlier=story.events)
    writer(story.events[0] | {"resumed": True, "time": START + 30})
    assert status_of(folder, 1) == ("STATUS_SUCCESS", "stopped")
    assert status_of(folder, 2) == ("STATUS_UNKNOWN", "interrupted")
    writer(started(2) | {"time": START + 31})
    assert status_of(folder, 2) == ("STATUS_RUNNING", "running")
    assert hparams(folder, 2)[0].start_time_secs < START + 30
    writer(ended(2, "completed"))
    assert status_of(folder, 2) == ("STATUS_SUCCESS", "completed")


def test_writer_accepts_a_hyperparameter_called_status(folder):
    writer_of(folder, space={"status": "choice(['a', 'b'])"})(started(1, status="a"))
    start = hparams(folder, 1)[0]
    assert start.hparams["status"].string_value == "a"
    assert start.hparams["trial_status"].string_value == "running"
