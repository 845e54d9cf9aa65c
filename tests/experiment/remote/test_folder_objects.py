"""Objects in a folder: as in a store they are whole, and created by one alone."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tuner.experiment.remote.folder_objects import FolderObjects, objects_in
from tuner.experiment.remote.objects import Objects


def test_a_folder_is_named_by_its_path_and_a_store_by_its_url(tmp_path: Path) -> None:
    assert isinstance(objects_in(tmp_path), FolderObjects)
    assert not isinstance(objects_in("memory://x"), FolderObjects)
    assert isinstance(objects_in("memory://x"), Objects)


def test_what_is_written_is_read_listed_and_removed(tmp_path: Path) -> None:
    objects = FolderObjects(tmp_path / "new")
    assert objects.names() == []
    with pytest.raises(FileNotFoundError):
        objects.read("a/b.json")
    objects.write("a/b.json", b"1")
    objects.write("a/b.json", b"2")
    objects.write("c", b"3")
    assert (objects.read("a/b.json"), objects.names()) == (b"2", ["a/b.json", "c"])
    assert objects.names("a") == ["a/b.json"]
    assert objects.has("c")
    assert not objects.has("a")
    objects.remove("a")
    objects.remove("a")  # it may be missing
    assert objects.names() == ["c"]


def test_of_many_that_create_one_succeeds(tmp_path: Path) -> None:
    objects = FolderObjects(tmp_path)
    objects.check_create()
    with ThreadPoolExecutor(8) as threads:
        created = [*threads.map(lambda n: objects.create("x/one", b"%d" % n), range(16))]
    assert created.count(True) == 1
    assert objects.read("x/one") == b"%d" % created.index(True)
    assert objects.names() == ["x/one"]
