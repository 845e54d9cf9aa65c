"""The commands serve and tensorboard."""

import sys
from pathlib import Path

import pytest
from commands import call
from synthetic import Writer, make_folder

from tuner.errors import UsageError
from tuner.reporting import tensorboard_server


def test_serve_of_a_public_host_needs_tls(here):
    done = call("serve", "--host", "0.0.0.0")
    assert isinstance(done.exception, UsageError)
    assert "--insecure" in str(done.exception)


def test_serve_without_sdk_of_mcp_names_the_package(here, monkeypatch):
    monkeypatch.setitem(sys.modules, "mcp", None)
    done = call("serve", "--host", "0.0.0.0")
    assert done.stderr.count("/mcp is off, since it needs a package: pip install") == 1
    assert "'tuner[serve]'" in done.stderr


@pytest.fixture
def served(monkeypatch):
    """What was served: the folders, the port, and those that are found later."""
    served_folders = []

    def serve(experiments, *, port, find):
        later = find and [experiment.path for experiment in find()]
        served_folders.append(([experiment.path for experiment in experiments], port, later))
        return 2

    monkeypatch.setattr(tensorboard_server, "serve", serve)
    return served_folders


def test_tensorboard_is_served_for_experiments(digits, served):
    Writer(make_folder(digits.parent / "cnn")).end()
    done = call("tensorboard", "digits", "--port", "7007")
    assert done.return_value == 2
    call("tensorboard", "digits", "cnn")
    folders = [Path("results/digits"), Path("results/cnn")]
    assert served == [(folders[:1], 7007, None), (folders, 6006, None)]


def test_tensorboard_without_name_serves_the_storage(digits, served):
    assert call("tensorboard").return_value == 2
    assert served == [([Path("results/digits")], 6006, [Path("results/digits")])]
