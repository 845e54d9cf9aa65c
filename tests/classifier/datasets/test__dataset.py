from pathlib import Path

import pytest

from tuner.classifier.datasets._dataset import data_folder


@pytest.mark.parametrize(
    ("data_dir", "variable", "expected"),
    [
        ("/given", "/variable", "/given"),
        (None, "/variable", "/variable"),
        (None, "", "/home/me/.cache/tuner"),
        ("~/mine", None, "/home/me/mine"),
    ],
)
def test_data_folder(data_dir, variable, expected, monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("TUNER_DATA", variable or "")
    assert data_folder(data_dir) == Path(expected)
