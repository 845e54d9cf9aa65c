"""What browsers are told without asking."""

import asyncio
import errno
import json

import pytest
from starlette.requests import Request
from synthetic import Writer, make_folder

from tuner.experiment.checkpoints import sha256_of
from tuner.experiment.results.best import record_test
from tuner.service import live as live_module
from tuner.service import watch
from tuner.service.live import Live
from tuner.service.watch import Experiments


async def stream(live, query=""):
    """The events of one listener."""
    request = Request({"type": "http", "query_string": query.encode(), "headers": []})
    async for text in (await live.stream(request)).body_iterator:
        kind, _, data = text.partition("\ndata: ")
        yield (kind.removeprefix("event: "), json.loads(data)) if data else (text, None)


async def take(most, events):
    for _ in range(most):
        yield await anext(events)


def play(story, experiments):
    """Run `story(live)` while the experiments are looked at."""

    async def played():
        live = Live(experiments)
        looking = asyncio.create_task(live.run())
        try:
            async with asyncio.timeout(60):
                await story(live)
        finally:
            looking.cancel()

    asyncio.run(played())


@pytest.fixture
def experiments(tmp_path, monkeypatch):
    monkeypatch.setattr(Experiments, "every_s", 0.01)
    experiments = Experiments(str(tmp_path))
    experiments._pace = type(experiments._pace)(running=0, over=0, new=0)
    return experiments


def test_a_listener_is_told_of_all_and_then_of_what_changes(tmp_path, experiments):
    writer = Writer(make_folder(tmp_path / "a"))

    async def story(live):
        events = stream(live, "experiment=a")
        kind, told = await anext(events)
        assert (kind, [one["name"] for one in told["listed"]]) == ("experiments", ["a"])
        kind, told = await anext(events)
        assert (kind, told["best"]) == ("experiment", None)
        writer.trial(0, [0.5])
        kind, told = await anext(events)
        assert (kind, told["listed"][0]["best"]) == ("experiments", 0.5)
        kind, told = await anext(events)
        assert (kind, told["best"]["metrics"]) == ("experiment", {"val_accuracy": 0.5})
        await live.close()
        assert [event async for event in events] == []

    play(story, experiments)
    writer.end()


def test_what_is_told_of_one_is_what_show_tells(tmp_path, experiments):
    writer = Writer(make_folder(tmp_path / "a"))
    path = writer.checkpoint(writer.trial(0, [0.5]), 1)
    writer.end()
    test = {"trial_id": "00000", "test_accuracy": 0.25, "checkpoint_sha256": sha256_of(path)}
    record_test(writer.folder, "00000", test)

    async def story(live):
        events = stream(live, "experiment=a")
        await anext(events)
        assert (await anext(events))[1]["test"] == test

    play(story, experiments)


def test_one_that_cannot_be_read_says_why(tmp_path, experiments):
    async def story(live):
        events = stream(live, "experiment=nope")
        assert (await anext(events))[0] == "experiments"
        kind, told = await anext(events)
        assert (kind, told["name"]) == ("experiment", "nope")
        assert "no experiment 'nope'" in told["error"]

    play(story, experiments)


def test_live_goes_on_once_a_storage_that_failed_can_be_read_again(
    tmp_path, experiments, monkeypatch
):
    writer = Writer(make_folder(tmp_path / "a"))

    def fails(storage, *, known):
        raise OSError(errno.ESTALE, "Stale file handle")

    async def story(live):
        events = stream(live)
        assert (await anext(events))[1]["problem"] == ""
        with monkeypatch.context() as broken:
            broken.setattr(watch, "experiment_folders", fails)
            told = (await anext(events))[1]
            assert told["problem"] == f"{tmp_path} cannot be read: [Errno 116] Stale file handle"
        assert (await anext(events))[1]["problem"] == ""
        writer.trial(0, [0.5])
        assert (await anext(events))[1]["listed"][0]["best"] == 0.5

    play(story, experiments)
    writer.end()


def test_nobody_looks_while_nobody_listens(tmp_path, experiments, monkeypatch):
    looks = []
    monkeypatch.setattr(experiments, "look", lambda: looks.append(1) and False)
    experiments.version = 1

    async def story(live):
        await asyncio.sleep(0.2)
        assert len(looks) == 1
        events = stream(live)
        await anext(events)
        while len(looks) < 4:
            await asyncio.sleep(0.01)
        await events.aclose()

    play(story, experiments)


def test_silence_is_broken_by_a_beat(tmp_path, experiments, monkeypatch):
    monkeypatch.setattr(live_module, "_BEAT_S", 0.01)

    async def story(live):
        kinds = [kind async for kind, _ in take(3, stream(live))]
        assert ": beat\n\n" in kinds

    play(story, experiments)
