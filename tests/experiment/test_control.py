"""What is asked of a search that runs: files that are created once, and refused where none acts."""

import os

import pytest
from synthetic import Writer, make_folder

from tuner.errors import SpecError, UsageError
from tuner.experiment.control import build_control, read_requests, send_request
from tuner.experiment.folder import ExperimentFolder

SPACE = {"lr": "loguniform(0.0001, 1)", "batch_size": "choice([32, 64])", "depth": 3}


@pytest.fixture
def driven(tmp_path):
    """An experiment that is driven, with a trial that runs and one that has ended."""
    spec = {"search": {"strategy": "random", "space": SPACE, "forbid": ["lr > 0.5"]}}
    writer = Writer(make_folder(tmp_path / "digits", **spec))
    writer.trial(0, [0.5])
    writer.trial(1, [0.5], end=None)
    yield ExperimentFolder(writer.folder)
    writer.journal.close()


def test_requested_returns_requests_in_order(driven):
    assert read_requests(driven) == []
    both = [build_control("pause"), build_control("num-samples", 9)]
    ids = [send_request(driven, control, by="ada") for control in both]
    assert ids == sorted(ids)
    requests = read_requests(driven)
    assert [(each.id, each.control, each.by) for each in requests] == [
        (request_id, control, "ada")
        for request_id, control in zip(ids, both, strict=True)
    ]
    assert read_requests(driven, but={ids[0]}) == requests[1:]
    names = sorted(path.stem for path in (driven.path / "control").iterdir())
    assert names == ids


def test_requested_ignores_other_files(driven):
    (driven.path / "control").mkdir()
    for number, text in enumerate(
        ["", "[]", "{}", '{"control": {"verb": "explode"}}', "[" * 999]
    ):
        (driven.path / f"control/{number:019}-{0:08x}.json").write_text(text)
    os.mkfifo(driven.path / f"control/{7:019}-{0:08x}.json")
    (driven.path / f"control/{8:019}-{0:08x}.json").symlink_to("notes.json")
    (driven.path / "control/notes.json").write_text('{"control": {"verb": "pause"}}')
    assert read_requests(driven) == []


def test_request_without_a_driver_is_refused(snapshot, tmp_path, writer):
    writer.kill()
    with snapshot.raises(UsageError):
        send_request(ExperimentFolder(writer.folder), build_control("pause"))
    assert not (tmp_path / "digits/control").exists()


@pytest.mark.parametrize("spec", [{}, {"trainable": "elsewhere"}])
def test_request_of_a_completed_search_is_refused(snapshot, tmp_path, spec):
    Writer(make_folder(tmp_path / "digits", **spec)).end()
    with snapshot.raises(UsageError):
        send_request(ExperimentFolder(tmp_path / "digits"), build_control("pause"))


def test_request_after_the_end_is_refused(snapshot, writer):
    writer.add("experiment_ended", status="completed")
    files = ExperimentFolder(writer.folder)
    with snapshot.raises(UsageError):
        send_request(files, build_control("pause"))
    assert read_requests(files) == []
    writer.journal.close()


@pytest.mark.parametrize(
    "control",
    [
        build_control("stop-trial", "00009"),
        build_control("stop-trial", "00000"),
        build_control("try", {"lr": 7}),
        build_control("try", {"lr": 0.1, "batch_size": 64, "x": 1}),
        build_control("try", {"lr": 0.1, "batch_size": 64, "depth": 4}),
        build_control("try", {"lr": 0.6, "batch_size": 64}),
    ],
)
def test_request_invalid_control_is_refused(driven, control, snapshot):
    with snapshot.raises(UsageError, SpecError):
        send_request(driven, control)
    assert read_requests(driven) == []


def test_request_cannot_remove_the_only_limit(snapshot, tmp_path):
    writer = Writer(
        make_folder(tmp_path / "digits", num_samples=None, time_budget_s=60)
    )
    with snapshot.raises(UsageError):
        send_request(
            ExperimentFolder(writer.folder), build_control("time-budget", None)
        )
    writer.journal.close()
