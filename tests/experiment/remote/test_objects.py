"""What each kind of store must do: objects whole or not at all, one winner, errors that tell."""

from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from stores import needs_s3

from tuner.errors import UsageError
from tuner.experiment.remote.objects import Objects, open_objects, retry


@pytest.fixture(params=["memory", "folder", pytest.param("s3", marks=needs_s3)])
def store(request, tmp_path):
    """Each kind of store, empty."""
    if request.param == "folder":
        return open_objects(tmp_path / "store")
    is_s3 = request.param == "s3"
    return open_objects(
        request.getfixturevalue("s3") if is_s3 else f"memory://{uuid4().hex}"
    )


class Careless(MemoryFileSystem):
    """Writes over what must be new."""

    protocol = "careless"

    def pipe_file(self, path, value, mode="overwrite", **options):
        super().pipe_file(path, value)


class Broken(MemoryFileSystem):
    """Fails with errors of its own."""

    protocol = "broken"

    def cat_file(self, path, **options):
        raise LookupError("two\nlines")

    def info(self, path, **options):
        raise ConnectionError("no route")

    ls = find = info


class LosingAnswers(MemoryFileSystem):
    """Writes and fails; the second time the object exists."""

    protocol = "losing-answers"
    error = FileExistsError

    def pipe_file(self, path, value, mode="overwrite", **options):
        if mode == "create" and not self.exists(path):
            super().pipe_file(path, value)
        raise self.error(0, "no answer")


class Unavailable(LosingAnswers):
    protocol = "unavailable"
    error = OSError


for system in (Careless, Broken, LosingAnswers, Unavailable):
    fsspec.register_implementation(system.protocol, system, clobber=True)


def test_write_replaces_and_create_refuses(store):
    store.write("a/b", b"1")
    store.write("a/b", b"22")
    assert store.read("a/b") == b"22"
    assert store.has("a/b")
    assert not store.has("a")
    assert not store.has("b")
    assert store.create("lock/1", b"1")
    assert not store.create("lock/1", b"2")
    assert store.read("lock/1") == b"1"


def test_check_create_refuses_an_overwriting_store(snapshot):
    store = Objects(f"careless://{uuid4().hex}")
    with snapshot.raises(UsageError):
        store.check_create()
    assert not store.list_names()


@pytest.mark.parametrize("system", [LosingAnswers, Unavailable])
def test_create_is_true_if_the_answer_to_a_write_is_lost(system):
    store = Objects(f"{system.protocol}://{uuid4().hex}")
    assert store.create("x", b"mine")
    assert not store.create("x", b"another's")
    assert store.read("x") == b"mine"


def test_create_at_once_has_one_winner(store):
    store.write("there", b"")
    names = [b"%d" % number for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        created = pool.map(lambda name: store.create("x", name), names)
        winners = [name for name, won in zip(names, created, strict=True) if won]
    assert winners == [store.read("x")]


def test_names_lists_a_folder(store):
    for name in ("b", "a/2", "a/1/x", "ab"):
        store.write(name, b"123")
    assert store.list_names() == ["a/1/x", "a/2", "ab", "b"]
    assert store.list_names("a") == ["a/1/x", "a/2"]
    assert store.list_names("nothing") == []
    assert store.list_sizes("a") == {"a/1/x": 3, "a/2": 3}
    assert store.list_folders() == ["a"]


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
    assert store.list_names() == ["ab"]


def test_store_errors_become_os_errors():
    store = Objects("broken://x")
    with pytest.raises(OSError, match="two lines") as error:
        store.read("x")
    assert error.value.strerror == "two lines"
    for ask in (lambda: store.has("x"), store.list_names, store.list_folders):
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
    assert retry(ask, sleep=pauses.append) == "done"
    assert pauses == [0.5, 1.0, 2.0]
    with pytest.raises(OSError, match="1"):
        retry(
            Failing(OSError(0, "0"), OSError(0, "1")),
            patience_s=0.9,
            sleep=pauses.append,
        )


@pytest.mark.parametrize("error", [FileNotFoundError(0, "x"), PermissionError(0, "x")])
def test_patiently_raises_permanent_errors_at_once(error):
    with pytest.raises(type(error)):
        retry(Failing(error), sleep=lambda s: pytest.fail("slept"))
