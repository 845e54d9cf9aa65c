"""A trial that a test begins in this process works elsewhere; the next test does not."""

import os

import pytest

from tuner.trial.directories import START_DIR, TRIAL_DIR


@pytest.fixture(autouse=True)
def _back_where_it_was():
    before = os.getcwd()
    yield
    os.chdir(before)
    for name in (START_DIR, TRIAL_DIR):
        os.environ.pop(name, None)
