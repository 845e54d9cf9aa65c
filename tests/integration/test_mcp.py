"""From a folder of images to a finished experiment, through MCP alone."""

import re
import subprocess

import driven
import photos
import pytest
from agents import Agent
from gated import wait_for


@pytest.mark.slow
def test_agent_searches_on_a_folder_of_images(tmp_path):
    photos.write(tmp_path / "photos", each=10)
    serving = driven.start(
        "serve", "--port", 0, cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    queue = driven.start(
        "queue", "run", "--stay", cwd=tmp_path, stderr=subprocess.DEVNULL
    )
    try:
        url, token = re.fullmatch(
            r"(.*)/\?token=(.*)\n", serving.stdout.readline()
        ).groups()
        agent = Agent(f"{url}/mcp", token)
        data = ("training.model=cnn", "training.image_size=16")
        settings = ["num_samples=2", "scheduler.max_t=1", *data]
        plan = agent.call("validate", experiment="folder:photos", settings=settings)
        assert plan["data"]["classes"] == {"daisy": 10, "rose": 10, "tulip": 10}
        name = agent.call("queue_add", experiment="folder:photos", settings=settings)[
            "name"
        ]
        wait_for(
            lambda: agent.call("queue_list")["queue"][0]["status"] == "completed", queue
        )
        shown = agent.call("show", name=name)
        assert (shown["status"], shown["counts"]["completed"]) == ("completed", 2)
        assert 0 <= shown["best"]["metrics"]["val_accuracy"] <= 1
        assert len(agent.call("trials", name=name)["trials"]) == 2
    finally:
        for process in (serving, queue):
            process.terminate()
            process.wait()
