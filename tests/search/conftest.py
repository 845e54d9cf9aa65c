"""An experiment that has only begun, for tests of what a resume does with it."""

import pytest
from synthetic import Writer, make_folder

from tuner.experiment.folder import ExperimentFolder


@pytest.fixture
def writer(tmp_path):
    return Writer(make_folder(tmp_path / "digits"))


@pytest.fixture
def files(writer):
    return ExperimentFolder(writer.folder)
