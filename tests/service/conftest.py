"""Commands of the server, which tests run in their own process."""

import pytest
from commands import call

from tuner.errors import UsageError


@pytest.fixture
def commands_here(monkeypatch):
    """Run the commands of the server in this process, where all is imported already."""

    def run_here(*arguments):
        done = call(*arguments)
        if done.exception:
            raise UsageError(str(done.exception))
        return done.stdout

    monkeypatch.setattr("tuner.service.commands.run_tuner", run_here)
