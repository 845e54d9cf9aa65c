"""The record of what was measured on the test split."""

import json

import pytest

from tuner.experiment.checkpoints import Checkpoint
from tuner.experiment.results.test_record import record_test, recorded_test

MEASURED = {"checkpoint_sha256": "of this", "test_accuracy": 0.5}


@pytest.fixture
def checkpoint(tmp_path):
    (tmp_path / "trials" / "00001").mkdir(parents=True)
    return Checkpoint(tmp_path / "state.pt", "of this", 3)


def test_what_was_recorded_is_read(tmp_path, checkpoint):
    assert recorded_test(tmp_path, "00001", checkpoint) is None
    record_test(tmp_path, "00001", MEASURED)
    assert recorded_test(tmp_path, "00001", checkpoint) == MEASURED
    assert json.loads((tmp_path / "trials" / "00001" / "test.json").read_text()) == MEASURED


@pytest.mark.parametrize("text", ["", "[]", '{"checkpoint_sha256": "of another"}', "[" * 9999])
def test_a_record_of_something_else_does_not_count(tmp_path, checkpoint, text):
    (tmp_path / "trials" / "00001" / "test.json").write_text(text)
    assert recorded_test(tmp_path, "00001", checkpoint) is None
