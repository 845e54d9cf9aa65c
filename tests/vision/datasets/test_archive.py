"""Folders and archives that are made once, complete or not at all."""

import hashlib

import pytest

from tuner.errors import DataError
from tuner.vision.datasets._archive import CHUNK_BYTES, Archive

CONTENT = bytes(range(256)) * (CHUNK_BYTES // 200)  # more than one chunk


@pytest.fixture
def archive(tmp_path):
    (tmp_path / "remote").write_bytes(CONTENT)
    md5 = hashlib.md5(CONTENT).hexdigest()
    return Archive(
        "Played", "played.tar", (tmp_path / "remote").as_uri(), md5, "raw", "decoded"
    )


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "data/folder"


@pytest.mark.parametrize("name", ["raw", "decoded"])
def test_archive_is_not_missing_beside_its_extracted_folder(archive, folder, name):
    assert archive.is_missing(folder)
    (folder / name).mkdir(parents=True)
    assert not archive.is_missing(folder)
    assert not archive.is_present(folder)
    archive.fetch(folder)
    assert not archive.is_present(folder)


def test_write_gives_another_node_an_equal_archive(archive, folder, tmp_path):
    archive.fetch(tmp_path)
    contents = archive.map_contents(tmp_path)
    archive.write(folder, lambda: [each.data for each in contents], origin="a node")
    assert (folder / archive.name).read_bytes() == CONTENT
    assert archive.ensure_verified(folder) == folder / archive.name


def test_write_of_incomplete_content_keeps_nothing(snapshot, archive, folder):
    def breaking():
        yield CONTENT[:9]
        raise ConnectionError("the node is gone")

    with snapshot.raises(DataError):
        archive.write(folder, lambda: [CONTENT[:-1]], origin="a node")
    with pytest.raises(ConnectionError):
        archive.write(folder, breaking, origin="a node")
    assert [path.name for path in folder.iterdir()] == [f".{archive.name}.lock"]


def test_verified_of_another_file_raises_and_leaves_it(snapshot, archive, folder):
    folder.mkdir(parents=True)
    (folder / archive.name).write_bytes(b"x")
    with snapshot.raises(DataError):
        archive.ensure_verified(folder)
    assert (folder / archive.name).read_bytes() == b"x"
