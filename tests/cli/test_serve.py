"""The commands serve and tensorboard."""

from pathlib import Path

import pytest
from commands import call
from synthetic import Writer, make_folder

from tuner.errors import UsageError
from tuner.reporting import tensorboard_server
from tuner.service import server


def test_serve_passes_options_on(here, monkeypatch):
    asked = []

    def serve(storage, *, tell, **options):
        asked.append((storage, options))
        tell("http://127.0.0.1:8642/?token=x", 8642)

    monkeypatch.setattr(server, "serve", serve)
    done = call("serve", "--storage", here)
    assert done.return_value == 0
    assert done.stdout == "http://127.0.0.1:8642/?token=x\n"
    pair = {"cert": None, "key": None, "is_insecure": False}
    assert asked == [(str(here), {"host": "127.0.0.1", "port": 8642, **pair})]


def test_serve_of_a_public_host_needs_tls(here):
    done = call("serve", "--host", "0.0.0.0")
    assert isinstance(done.exception, UsageError)
    assert "--insecure" in str(done.exception)


@pytest.fixture
def served(monkeypatch):
    """What was served: the folders, the port, and those that are found later."""
    found = []

    def serve(experiments, *, port, find):
        later = find and [one.path for one in find()]
        found.append(([one.path for one in experiments], port, later))
        return 2

    monkeypatch.setattr(tensorboard_server, "serve", serve)
    return found


def test_tensorboard_is_served_for_experiments(digits, served):
    Writer(make_folder(digits.parent / "cnn")).end()
    done = call("tensorboard", "digits", "--port", "7007")
    assert done.return_value == 2
    call("tensorboard", "digits", "cnn")
    folders = [Path("results/digits"), Path("results/cnn")]
    assert served == [(folders[:1], 7007, None), (folders, 6006, None)]


def test_without_a_name_the_whole_storage_is_shown_and_what_comes_to_it(digits, served):
    assert call("tensorboard").return_value == 2
    assert served == [([Path("results/digits")], 6006, [Path("results/digits")])]
