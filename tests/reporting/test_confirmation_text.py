"""Confirmations as text."""

from confirmed import retrained, searched

from tuner.experiment.results.confirmation import Confirmation
from tuner.reporting.confirmation_text import format_confirmation


def test_leaders_verdict_of_different_leaders_names_the_better(snapshot, tmp_path):
    leaders = searched(tmp_path / "digits", {0.1: 0.90, 0.2: 0.95, 0.3: 0.93})
    values = [[0.70, 0.80, 0.90], [0.84, 0.85, 0.86], [0.91, 0.92, 0.93]]
    test = {"trial_id": "00000", "test_accuracy": 0.9}
    text = format_confirmation(Confirmation(retrained(leaders, values)), test)
    snapshot(text)
    assert all(len(line) <= 80 or str(tmp_path) in line for line in text.splitlines())
