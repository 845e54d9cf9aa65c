"""A folder that is made once: whole or not at all, whoever else wants it."""

from threading import Thread

import pytest

from tuner.vision.datasets._once import folder_made_once


def test_of_several_that_want_it_one_makes_it(tmp_path):
    made = []

    def make(folder):
        made.append(folder)
        (folder / "file").write_text("whole")

    threads = [Thread(target=folder_made_once, args=(tmp_path / "a" / "x", make)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert (tmp_path / "a" / "x" / "file").read_text() == "whole"
    assert (tmp_path / "a" / "x").stat().st_mode & 0o777 == 0o755


def test_one_that_fails_leaves_nothing(tmp_path):
    def make(folder):
        (folder / "file").write_text("half")
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        folder_made_once(tmp_path / "x", make)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []
