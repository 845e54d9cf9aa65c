"""A storage that is a URL has a folder here, and a path in it knows its URL."""

from pathlib import Path

import pytest

from tuner.places import (
    ROOT,
    find_local_experiment,
    find_local_folder,
    find_storage,
    find_url,
    format_path,
    is_url,
)
from tuner.spec.experiment import build_spec

URL = "s3://bucket/some/runs"


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    monkeypatch.setenv(ROOT, str(tmp_path / "mirrors"))
    return tmp_path / "mirrors"


@pytest.mark.parametrize(
    "storage", ["results", "./a", "/a/b", "~/x", "C:\\x", "a:b", "s3:/x", ""]
)
def test_is_url_folder_is_false(storage):
    assert not is_url(storage)
    assert not is_url(Path("s3://bucket"))


def test_local_folder_is_itself(tmp_path):
    assert find_local_folder(tmp_path) == tmp_path
    assert find_local_folder("~/x") == Path.home() / "x"
    assert find_url(tmp_path / "x") is None
    assert find_storage(tmp_path / "x") == str(tmp_path)
    assert format_path(tmp_path) == str(tmp_path)
    assert find_local_experiment(str(tmp_path / "x")) == tmp_path / "x"


@pytest.mark.parametrize(
    "url", [URL, URL + "/", "gs://b", "file:///a b/%41", "memory://x"]
)
def test_url_of_mirror_is_its_url(url, root):
    folder = find_local_folder(url) / "digits"
    assert folder.is_relative_to(root)
    plain = url.rstrip("/")
    assert find_storage(folder) == find_url(folder.parent) == plain
    assert find_url(folder / "trials/00000") == f"{plain}/digits/trials/00000"
    assert format_path(folder) == f"{plain}/digits"
    assert find_local_experiment(f"{plain}/digits") == folder


def test_url_of_path_outside_mirror_is_none(root):
    assert find_url(find_local_folder(URL) / "../..") is None
    assert find_url(root) is None


def test_url_of_follows_links(tmp_path):
    folder = find_local_folder(URL) / "digits"
    folder.mkdir(parents=True)
    (tmp_path / "link").symlink_to(folder)
    assert find_url(tmp_path / "link") == f"{URL}/digits"


def test_spec_folder_of_url_is_in_mirror(root):
    search = {"space": {"lr": "uniform(0, 1)"}}
    spec = build_spec({"name": "a", "search": search, "storage": URL, "num_samples": 1})
    assert spec.storage == URL
    assert spec.folder == find_local_folder(URL) / "a"
    assert spec.location == f"{URL}/a"
    assert spec.replace(storage="x").location == str(Path("x/a").resolve())
