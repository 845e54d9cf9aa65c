import hashlib
import urllib.error

import pytest

from tuner.classifier.data.download import download, file_md5
from tuner.errors import DataError

CONTENT = bytes(range(256)) * 9000  # more than one chunk
MD5 = hashlib.md5(CONTENT).hexdigest()


@pytest.fixture
def url(tmp_path):
    (tmp_path / "remote").write_bytes(CONTENT)
    return (tmp_path / "remote").as_uri()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "local").mkdir()
    return tmp_path / "local"


def test_arrives_whole(url, folder, capsys):
    download(url, to=folder / "file", md5=MD5)
    assert (folder / "file").read_bytes() == CONTENT
    assert file_md5(folder / "file") == MD5
    assert [path.name for path in folder.iterdir()] == ["file"]
    assert capsys.readouterr().out == ""


def test_a_wrong_md5_leaves_nothing(url, folder):
    with pytest.raises(DataError, match=f"MD5 {MD5}, published is 0123"):
        download(url, to=folder / "file", md5="0123")
    assert list(folder.iterdir()) == []


def test_a_failure_leaves_nothing_and_what_was_there(url, folder):
    (folder / "file").write_bytes(b"old")
    with pytest.raises(urllib.error.URLError):
        download(url + "-missing", to=folder / "file", md5=MD5)
    assert [path.read_bytes() for path in folder.iterdir()] == [b"old"]
