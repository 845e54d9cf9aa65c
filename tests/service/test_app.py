"""The application: its page, its description, and its events."""

import asyncio
import errno
import json
import re

import pytest
from jsonschema import Draft202012Validator
from served import HOST, Served
from synthetic import Writer, make_folder

from tuner.service import watch
from tuner.service.app import Live
from tuner.service.watch import Experiments, Pace


def test_page_loads_only_its_own_files(tmp_path):
    served = Served(tmp_path)
    page = served.ask("GET", "/")
    assert page.headers["content-type"].startswith("text/html")
    for path in re.findall(r'(?:href|src)="(/page[^"]*)"', page.text):
        assert served.ask("GET", path).status_code == 200
    assert not re.search(r"https?://", page.text)  # nothing of another server


def test_page_scripts_come_from_this_server(tmp_path):
    served = Served(tmp_path)
    assert served.ask("GET", "/verbs.js").text.startswith('export default [{"name": "stop-trial",')
    plotly = served.ask("GET", "/plotly.js")
    assert plotly.headers["cache-control"] == "max-age=604800"
    assert "plotly.js v" in plotly.text[:200]


def test_page_script_parses_no_html(tmp_path):
    script = Served(tmp_path).ask("GET", "/page.js").text
    parsed = r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function|DOMParser"
    assert not re.findall(parsed, script)


@pytest.mark.parametrize("path", ["/page/page.html", "/page.css/../app.py", "/%2e%2e/app.py"])
def test_other_files_are_not_served(tmp_path, path):
    assert Served(tmp_path).ask("GET", f"{HOST}{path}").status_code == 404


def test_agents_are_not_served_unless_requested(tmp_path):
    assert Served(tmp_path).ask("POST", "/mcp", json={}).status_code == 405  # of a page


def test_openapi_has_every_endpoint_and_valid_schemas(tmp_path):
    document = Served(tmp_path).ask("GET", "/api/openapi.json").json()
    paths = {"/api/experiments/{name}/trials/{trial_id}", "/api/events", "/api/ask-tell/"}
    assert paths <= set(document["paths"])
    for operations in document["paths"].values():
        assert all("422" not in operation["responses"] for operation in operations.values())
    schemas = document["components"]["schemas"]
    for schema in schemas.values():
        Draft202012Validator.check_schema(schema)
    assert set(re.findall(r"#/components/schemas/(\w+)", str(document))) <= set(schemas)
    assert {"StopTrial", "Try", "Client"} <= set(schemas)


async def stream(live, experiment=None):
    """The events of one listener."""
    async for text in (await live.stream(experiment)).body_iterator:
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
def experiments(tmp_path):
    return Experiments(str(tmp_path), pace=Pace(running=0.01, over=0, new=0))


def test_stream_sends_everything_then_changes(tmp_path, experiments):
    writer = Writer(make_folder(tmp_path / "a"))

    async def story(live):
        events = stream(live, "a")
        kind, data = await anext(events)
        assert (kind, [listed["name"] for listed in data["listed"]]) == ("experiments", ["a"])
        kind, data = await anext(events)
        assert (kind, data["best"]) == ("experiment", None)
        writer.trial(0, [0.5])
        kind, data = await anext(events)
        assert (kind, data["listed"][0]["best"]) == ("experiments", 0.5)
        kind, data = await anext(events)
        assert (kind, data["best"]["metrics"]) == ("experiment", {"val_accuracy": 0.5})
        await live.close()
        assert [event async for event in events] == []

    play(story, experiments)
    writer.end()


def test_stream_recovers_after_storage_failure(tmp_path, experiments, monkeypatch):
    writer = Writer(make_folder(tmp_path / "a"))

    def fails(storage, *, trusted):
        raise OSError(errno.ESTALE, "Stale file handle")

    async def story(live):
        events = stream(live)
        assert (await anext(events))[1]["problem"] == ""
        with monkeypatch.context() as broken:
            broken.setattr(watch, "experiment_folders", fails)
            data = (await anext(events))[1]
            assert data["problem"] == f"{tmp_path} cannot be read: [Errno 116] Stale file handle"
        assert (await anext(events))[1]["problem"] == ""
        writer.trial(0, [0.5])
        assert (await anext(events))[1]["listed"][0]["best"] == 0.5

    play(story, experiments)
    writer.end()
