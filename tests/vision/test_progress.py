"""Progress where there is no terminal."""

from tuner.vision import progress
from tuner.vision.progress import show_progress


def test_progress_without_terminal_prints_lines_at_intervals(monkeypatch, capsys):
    monkeypatch.setattr(progress, "_LINE_EVERY_S", 0)
    with show_progress("copying", 1970) as advance:
        advance(640)
        advance(1330)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["copying: 640 of 1,970", "copying: 1,970 of 1,970"]
