"""A user's working directory, with an experiment in its storage."""

import sys
from contextlib import nullcontext
from typing import NamedTuple

import pytest
import synthetic
from click.testing import CliRunner
from commands import A_FUNCTION
from ray_client import FakeClient, details
from synthetic import Writer, make_folder

from tuner.cli.main import cli, main
from tuner.cluster import jobs
from tuner.experiment.results.results import Results


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch, import_path):
    """An empty working directory whose results/ is the storage."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TUNER_STORAGE", raising=False)
    return tmp_path


class Printed(NamedTuple):
    """What the command line has come to."""

    code: int
    stdout: str
    stderr: str


@pytest.fixture
def run_main(monkeypatch, capsys):
    """A function that runs the command line as its process does."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["tuner", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
        return Printed(code, *capsys.readouterr())

    return run


@pytest.fixture
def digits(here):
    """Four trials: the third is the best; one failed."""
    writer = Writer(make_folder(here / "results/digits"))
    for number, values in enumerate([[0.5], [0.6, 0.7], [0.9, 0.8]]):
        writer.trial(number, values, end="stopped" if number == 1 else "completed")
    writer.trial(3, [0.99], error=("nan", "'val_loss' is nan"))
    writer.checkpoint("00002", 1)
    writer.end()
    return writer.folder


@pytest.fixture
def ended(tmp_path_factory):
    """The results of a search that has ended, elsewhere."""
    folder = tmp_path_factory.mktemp("elsewhere") / "ended"
    return Results(synthetic.ended(folder, [0.5], trainable=A_FUNCTION, training={}))


@pytest.fixture
def cluster(monkeypatch):
    """What a command returns and prints of a cluster with one job, which has failed to start."""
    client = FakeClient(details("a", "FAILED", message="no room"))
    monkeypatch.setattr(
        jobs, "open_jobs", lambda url: nullcontext(jobs.Jobs(url, client))
    )

    def call(*arguments):
        command = [*arguments, "--address", "http://head:8265"]
        done = CliRunner().invoke(cli, command, standalone_mode=False)
        assert done.exception is None
        return done

    return call
