"""What each kind of store must do: objects whole or not at all, one winner, errors that tell."""

import threading
from uuid import uuid4

import fsspec
import pytest
from stores import needs_s3

from tuner.errors import UsageError
from tuner.experiment.remote import objects as module
from tuner.experiment.remote.objects import Objects, objects_in, patiently


def url_of_kind(request, kind):
    return request.getfixturevalue("s3") if kind == "s3" else f"memory://{uuid4().hex}"


@pytest.fixture(params=["memory", pytest.param("s3", marks=needs_s3)])
def url(request):
    return url_of_kind(request, request.param)


@pytest.fixture(params=["memory", "folder", pytest.param("s3", marks=needs_s3)])
def store(request, tmp_path):
    """Each kind of store, empty."""
    if request.param == "folder":
        return objects_in(tmp_path / "store")
    return objects_in(url_of_kind(request, request.param))


def system_of(url):
    """What fsspec opens for `url`: the same object each time."""
    system, _ = fsspec.core.url_to_fs(url, use_listings_cache=False)
    return system


def test_read_returns_what_was_written(store):
    store.write("a/b", b"1")
    store.write("a/b", b"22")
    assert store.read("a/b") == b"22"
    assert store.has("a/b")
    assert not store.has("a")
    assert not store.has("b")


def test_create_refuses_an_existing_object(store):
    assert store.create("lock/1", b"1")
    assert not store.create("lock/1", b"2")
    assert store.read("lock/1") == b"1"


def test_check_create_refuses_an_overwriting_store(url, monkeypatch):
    store, system = Objects(f"{url}/careless"), system_of(url)
    careless = system.pipe_file
    monkeypatch.setattr(
        system, "pipe_file", lambda path, data, mode="overwrite": careless(path, data)
    )
    with pytest.raises(UsageError, match=r"careless: this store writes over .*If-None-Match"):
        store.check_create()
    assert not store.names()


def test_create_at_once_has_one_winner(store):
    store.write("there", b"")
    won = []
    threads = [
        threading.Thread(target=lambda n=n: won.append((store.create("x", b"%d" % n), n)))
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winners = [number for was, number in won if was]
    assert len(winners) == 1
    assert store.read("x") == b"%d" % winners[0]


def test_names_lists_a_folder(store):
    for name in ("b", "a/2", "a/1/x", "ab"):
        store.write(name, b"123")
    assert store.names() == ["a/1/x", "a/2", "ab", "b"]
    assert store.names("a") == ["a/1/x", "a/2"]
    assert store.names("nothing") == []
    assert store.sizes("a") == {"a/1/x": 3, "a/2": 3}
    assert store.folders() == ["a"]


def test_missing_object_raises_and_leaves_no_file(store, tmp_path):
    store.write("x", b"")
    with pytest.raises(FileNotFoundError):
        store.read("missing")
    (tmp_path / "before").write_text("before")
    with pytest.raises(FileNotFoundError) as missing:
        store.download("missing", tmp_path / "before")
    assert missing.value.strerror
    assert (tmp_path / "before").read_text() == "before"
    assert [p.name for p in tmp_path.iterdir() if p.name != "store"] == ["before"]


def test_remove_accepts_object_or_folder(store):
    for name in ("a/1", "a/2", "ab", "b"):
        store.write(name, b"")
    store.remove("a")
    store.remove("b")
    store.remove("b")
    assert store.names() == ["ab"]


def test_store_errors_become_os_errors(url, monkeypatch):
    store = Objects(url)

    class Odd(Exception):
        pass

    def fail(*arguments, **settings):
        raise Odd("two\nlines")

    monkeypatch.setattr(system_of(url), "cat_file", fail)
    with pytest.raises(OSError, match="two lines") as error:
        store.read("x")
    assert error.value.strerror == "two lines"


def test_failing_store_is_not_empty(url, monkeypatch):
    store = Objects(url)

    def fail(*arguments, **settings):
        raise ConnectionError("no route")

    for ask in ("info", "ls", "find"):
        monkeypatch.setattr(system_of(url), ask, fail)
    for ask in (lambda: store.has("x"), store.names, store.folders):
        with pytest.raises(OSError, match="no route"):
            ask()


class Failing:
    def __init__(self, *errors):
        self.errors = list(errors)

    def __call__(self):
        if self.errors:
            raise self.errors.pop(0)
        return "done"


def test_patiently_retries_with_growing_pauses():
    pauses = []
    ask = Failing(OSError(0, "a"), TimeoutError(0, "b"), OSError(0, "c"))
    assert patiently(ask, sleep=pauses.append) == "done"
    assert pauses == [0.5, 1.0, 2.0]


def test_patiently_raises_the_last_error(monkeypatch):
    now = iter(range(0, 1000, 20))
    monkeypatch.setattr(module.time, "monotonic", lambda: next(now))
    ask = Failing(*[OSError(0, str(n)) for n in range(9)])
    with pytest.raises(OSError, match="2"):
        patiently(ask, patience_s=60, sleep=lambda s: None)


@pytest.mark.parametrize("error", [FileNotFoundError(0, "x"), PermissionError(0, "x")])
def test_patiently_raises_permanent_errors_at_once(error):
    with pytest.raises(type(error)):
        patiently(Failing(error), sleep=lambda s: pytest.fail("slept"))
