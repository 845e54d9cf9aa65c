import pytest

from tuner.experiment.files import Checkpoint
from tuner.experiment.results.measured_tests import read_test


@pytest.fixture
def checkpoint(tmp_path):
    (tmp_path / "trials/00001").mkdir(parents=True)
    return Checkpoint(tmp_path / "state.pt", "of this", 3)


@pytest.mark.parametrize(
    "text", ["", "[]", '{"checkpoint_sha256": "of another"}', "[" * 9999]
)
def test_recorded_test_ignores_other_records(tmp_path, checkpoint, text):
    (tmp_path / "trials/00001/test.json").write_text(text)
    assert read_test(tmp_path, "00001", checkpoint) is None
