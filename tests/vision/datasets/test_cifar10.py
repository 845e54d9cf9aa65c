import multiprocessing
import tarfile
from dataclasses import replace

import numpy as np
import pytest
from cifar10_archives import IMAGES_A_FILE, NAMES, records, write_archive

from tuner.errors import DataError
from tuner.vision.datasets import cifar10
from tuner.vision.datasets.cifar10 import ARCHIVE, DECODED, EXTRACTED, OFFICIAL, load


def check(folder, source):
    """What is loaded from the folder has the images and labels of the archive."""
    arrays = load(folder, split_seed=0, source=source)
    assert isinstance(arrays.images_NHWC, np.memmap)
    assert not arrays.images_NHWC.flags.writeable
    assert arrays.images_NHWC.shape == (6 * IMAGES_A_FILE, 32, 32, 3)
    for number in range(6):
        images, labels, _ = records(number)
        rows = slice(number * IMAGES_A_FILE, (number + 1) * IMAGES_A_FILE)
        assert np.array_equal(arrays.images_NHWC[rows].transpose(0, 3, 1, 2), images)
        assert np.array_equal(arrays.labels_N[rows], labels)


def test_load_decodes_the_archive_once_and_in_place(tmp_path):
    source = write_archive(tmp_path / ARCHIVE)
    check(tmp_path, source)
    assert not (tmp_path / EXTRACTED).exists()
    (tmp_path / ARCHIVE).unlink()
    check(tmp_path, source)


def test_load_reads_the_extracted_folder(tmp_path):
    source = write_archive(tmp_path / "elsewhere" / ARCHIVE)
    (tmp_path / EXTRACTED).mkdir()
    for number, name in enumerate(NAMES):
        (tmp_path / EXTRACTED / name).write_bytes(records(number)[2])
    check(tmp_path, source)


def test_load_splits_by_the_seed_and_keeps_the_official_test(tmp_path):
    source = write_archive(tmp_path / ARCHIVE)
    arrays = load(tmp_path, split_seed=0, source=source)
    rows = {name: sorted(rows) for name, rows in arrays.splits.items()}
    official = [*range(5 * IMAGES_A_FILE, 6 * IMAGES_A_FILE)]
    assert rows["test"] == official
    assert sorted(rows["train"] + rows["validation"]) == [*range(5 * IMAGES_A_FILE)]
    assert np.bincount(arrays.labels_N[rows["validation"]]).tolist() == [2] * 10
    other = load(tmp_path, split_seed=1, source=source).splits
    assert sorted(other["validation"]) != rows["validation"]
    assert other["test"].tolist() == official


def test_load_of_a_read_only_folder_decodes_into_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TUNER_DATA", str(tmp_path / "cache"))
    monkeypatch.setattr(cifar10.os, "access", lambda path, mode: False)
    source = write_archive(tmp_path / "shared" / ARCHIVE)
    check(tmp_path / "shared", source)
    assert [path.name for path in (tmp_path / "shared").iterdir()] == [ARCHIVE]
    assert list((tmp_path / "cache").glob(f"*/{DECODED}"))


def test_load_without_data_and_network_names_url_and_folder(tmp_path):
    source = replace(OFFICIAL, url="file:///nowhere/cifar.tar.gz")
    with pytest.raises(DataError) as caught:
        load(tmp_path, split_seed=0, source=source)
    for part in (str(tmp_path), source.url, ARCHIVE, EXTRACTED):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [b"\0" * 3073, b"\x0b" * 3073 * IMAGES_A_FILE],
)
def test_load_of_a_damaged_file_raises_and_leaves_nothing(tmp_path, content, snapshot):
    source = write_archive(tmp_path / ARCHIVE, files={"data_batch_3.bin": content})
    with snapshot.raises(DataError):
        load(tmp_path, split_seed=0, source=source)
    assert not (tmp_path / DECODED).exists()
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


def test_load_of_hostile_archive_writes_inside_folder(tmp_path):
    members = [
        tarfile.TarInfo(name) for name in ("../../escaped", str(tmp_path / "absolute"))
    ]
    for member in members:
        member.size = 1
    folder = tmp_path / "a/b"
    source = write_archive(folder / ARCHIVE, extra=members)
    check(folder, source)
    assert not (tmp_path / "escaped").exists()
    assert not (tmp_path / "absolute").exists()


def test_load_of_an_archive_with_a_link_raises(snapshot, tmp_path):
    (tmp_path / "secret").write_bytes(b"\0" * 3073 * IMAGES_A_FILE)
    # The later of two members counts
    link = tarfile.TarInfo(f"{EXTRACTED}/{cifar10.TEST_FILE}")
    link.type = tarfile.SYMTYPE
    link.linkname = str(tmp_path / "secret")
    source = write_archive(tmp_path / "data" / ARCHIVE, extra=[link])
    with snapshot.raises(DataError):
        load(tmp_path / "data", split_seed=0, source=source)


def test_load_by_several_processes_downloads_and_decodes_once(tmp_path):
    source = write_archive(tmp_path / "remote" / ARCHIVE)
    source = replace(source, url=(tmp_path / "remote" / ARCHIVE).as_uri())
    context = multiprocessing.get_context("fork")

    def work():
        check(tmp_path / "data", source)

    workers = [context.Process(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 3
    names = {path.name for path in (tmp_path / "data").glob("[!.]*")}
    assert names == {ARCHIVE, DECODED}
