"""Folders that one of several threads makes."""

import time
from threading import Thread

import pytest

from tuner.vision.shared_folders import ensure_folder


def test_folder_made_once_by_several_threads_is_made_once(tmp_path, capsys):
    made = []
    lines = []

    def make(folder):
        made.append(folder)
        while not (text := capsys.readouterr().err):  # until one of the others waits
            time.sleep(0.01)
        lines.append(text)
        (folder / "file").write_text("whole")

    threads = [
        Thread(target=ensure_folder, args=(tmp_path / "a/x", make)) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert f"waiting for another process to make {tmp_path / 'a' / 'x'}\n" in lines[0]
    assert (tmp_path / "a/x/file").read_text() == "whole"
    assert (tmp_path / "a/x").stat().st_mode & 0o777 == 0o755


def test_folder_made_once_after_a_failure_leaves_nothing(tmp_path):
    def make(folder):
        (folder / "file").write_text("half")
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        ensure_folder(tmp_path / "x", make)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []
