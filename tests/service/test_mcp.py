"""MCP: what an agent sees and may do, by the SDK's client."""

import json
import socket
import threading

import httpx
import pytest
import uvicorn
from agents import Agent
from served import TOKEN
from synthetic import Writer, make_folder

from tuner.experiment.control import read_requests
from tuner.experiment.folder import ExperimentFolder
from tuner.experiment.verbs import VERBS
from tuner.service.access import Access, list_host_names
from tuner.service.app import create_application
from tuner.service.mcp import BRIEF, Tools
from tuner.service.queue.entries import Queue

pytestmark = pytest.mark.usefixtures("commands_here")


@pytest.fixture
def serving(tmp_path):
    """A function that serves the storage with limits of agents, and returns an Agent."""
    running = []

    def serve(**limits):
        storage = str(tmp_path / "results")
        app = create_application(
            storage, Access(TOKEN, list_host_names("127.0.0.1"), 0), agents=limits
        )
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none"))
        listening = socket.create_server(("127.0.0.1", 0))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        running.append((server, thread))
        return Agent(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", TOKEN)

    yield serve
    for server, thread in running:
        server.should_exit = True
        thread.join()


@pytest.fixture
def queue(tmp_path):
    return Queue(str(tmp_path / "results"))


def add(agent, *settings):
    return agent.call("queue_add", experiment="digits", settings=settings)


def test_every_tool_is_listed_with_its_description(serving):
    tools = serving().ask(lambda client: client.list_tools()).tools
    assert {tool.name for tool in tools} == {
        n for n in vars(Tools) if not n.startswith("_")
    }
    assert all(tool.description for tool in tools)
    [control] = [tool for tool in tools if tool.name == "control"]
    assert all(verb.does in control.description for verb in VERBS.values())


def test_wrong_tokens_and_streams_of_events_are_refused(serving):
    url = serving().url
    for token in ("", "Bearer wrong"):
        answer = httpx.post(url, json={}, headers={"Authorization": token})
        assert answer.status_code == 401
        assert "the token is missing" in answer.json()["error"]
    answer = httpx.get(url, headers={"Authorization": f"Bearer {TOKEN}"})
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


def test_experiment_is_listed_and_shown(snapshot, serving, tmp_path):
    writer = Writer(make_folder(tmp_path / "results/digits"))
    writer.trial(0, [0.5, 0.9])
    writer.trial(1, [0.7])
    writer.end()
    agent = serving()
    for tool, arguments in (
        ("list_experiments", {}),
        ("show", {"name": "digits"}),
        ("trials", {"name": "digits", "sort": "-val_accuracy", "limit": 1}),
        ("show", {"name": "digits", "trial_id": "00000"}),
    ):
        snapshot(json.dumps(agent.call(tool, **arguments), indent=1))
    assert "findings" in agent.call("advise", name="digits")
    assert "no experiment 'digit'" in agent.refused("show", name="digit")


def test_answer_is_brief_unless_more_is_requested(serving, tmp_path):
    writer = Writer(make_folder(tmp_path / "results/digits"))
    for number in range(40):
        config = {"lr": 1 / (number + 3), "é" * 99: "é" * 999}
        writer.trial(number, [number / 40] * 40, config=config)
    writer.end()
    agent = serving()
    for tool, brief, more in (
        ("trials", {}, {"limit": 40}),
        ("show", {"trial_id": "00003"}, {"full": True}),
    ):
        _, text = agent.text(tool, name="digits", **brief)
        assert len(text) <= BRIEF
        assert json.loads(text)["cut"]
        complete = agent.call(tool, name="digits", **brief, **more)
        assert len(json.dumps(complete)) > BRIEF
        assert "cut" not in complete
    assert len(agent.call("trials", name="digits", limit=40)["trials"]) == 40


def test_spec_is_validated(snapshot, serving):
    agent = serving()
    experiment = {"search": {"space": {"lr": "uniform(0.1, 1)"}}}
    plan = agent.call("validate", experiment=experiment, settings=["num_samples=3"])
    assert plan["trials"] == 3
    assert plan["spec"]["search"]["space"]["lr"]
    refused = ["num_samples=0", "x=1"]
    snapshot(agent.refused("validate", experiment=experiment, settings=refused))


@pytest.mark.parametrize(
    ("experiment", "settings"),
    [
        ("mine:experiment", []),
        ("digits", ["training.model=mine:Net"]),
        ({"trainable": "mine:Net", "search": {}}, []),
    ],
)
def test_agent_names_no_code_and_no_file(
    snapshot, serving, queue, experiment, settings
):
    agent = serving()
    for tool in ("validate", "queue_add"):
        snapshot(agent.refused(tool, experiment=experiment, settings=settings))
    assert queue.list_files() == {}


@pytest.mark.parametrize(
    ("mode", "user"), [("auto", "mcp:mcp"), ("legacy", "mcp:python-httpx2")]
)
def test_queue_entry_records_the_client(serving, queue, mode, user):
    agent = serving()
    agent.mode = mode
    assert add(agent, "num_samples=3") == {"name": "digits", "user": user, "trials": 3}
    entry = queue.read_entry("digits")
    assert (entry.user, entry.spec["num_samples"]) == (user, 3)
    assert agent.call("queue_list")["queue"][0]["status"] == "waiting"


def test_agents_stay_within_their_limits(snapshot, serving, queue):
    agent = serving(trials=7, time_budget_s=300)
    assert add(agent, "num_samples=6", "time_budget_s=120")["name"] == "digits"
    for settings in (
        ["num_samples=3", "time_budget_s=60"],
        ["num_samples=1", "time_budget_s=200"],
        ["num_samples=1"],
    ):
        snapshot(agent.refused("queue_add", experiment="digits", settings=settings))
    assert list(queue.list_files()) == ["digits"]
    later = serving(trials=7)  # a restart gives no more
    assert "must be at most 1" in later.refused("queue_add", experiment="digits")
    queue.remove("digits", warn=print)
    assert add(later, "num_samples=4")["trials"] == 4


def test_control_is_requested_with_the_client_as_requester(snapshot, serving, tmp_path):
    folder = ExperimentFolder(make_folder(tmp_path / "results/digits"))
    writer = Writer(folder.path)
    writer.trial(0, [0.5], end=None)
    agent = serving(trials=7)
    answer = agent.call("control", name="digits", verb="stop-trial", value=0)
    [request] = read_requests(folder)
    assert (request.id, request.by, request.control.value) == (
        answer["id"],
        "mcp:mcp",
        "00000",
    )
    agent.call("control", name="digits", verb="time-budget", value="2h")
    refused = {"num-samples": 99, "try": {"lr": 0.1}, "stop": None, "max-concurrent": 0}
    for verb, value in refused.items():
        snapshot(agent.refused("control", name="digits", verb=verb, value=value))
    assert len(read_requests(folder)) == 2
    writer.end()
