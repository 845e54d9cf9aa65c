"""tuner tensorboard."""

from pathlib import Path

from commands import call


def test_tensorboard_is_served_for_the_experiment(digits, monkeypatch):
    from tuner.reporting import tensorboard_server

    served = []
    monkeypatch.setattr(
        tensorboard_server, "serve", lambda folder, port: served.append((folder, port)) or 2
    )
    assert call("tensorboard", "digits", "--port", "7007").return_value == 2
    assert served == [(Path("results/digits"), 7007)]
