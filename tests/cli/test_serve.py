"""The commands serve and tensorboard."""

import sys

from commands import call
from synthetic import Writer, make_folder

from tuner.reporting import tensorboard_server


def test_serve_without_sdk_of_mcp_names_the_package(here, monkeypatch):
    monkeypatch.setitem(sys.modules, "mcp", None)
    done = call("serve", "--host", "0.0.0.0")
    assert done.stderr.count("/mcp is off, since it needs a package: pip install") == 1
    assert "'tuner[serve]'" in done.stderr


def test_tensorboard_is_served_for_experiments_or_the_storage(
    snapshot, digits, monkeypatch
):
    served = []  # the folders, the port, and those that appear later

    def serve(experiments, *, port, find):
        later = find and [str(experiment.path) for experiment in find()]
        served.append(
            ([str(experiment.path) for experiment in experiments], port, later)
        )
        return 2

    monkeypatch.setattr(tensorboard_server, "serve", serve)
    assert call("tensorboard").return_value == 2
    Writer(make_folder(digits.parent / "cnn")).end()
    call("tensorboard", "digits", "--port", "7007")
    call("tensorboard", "digits", "cnn")
    snapshot.compare_value(served)
