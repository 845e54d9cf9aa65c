"""Decoded sets: written once, described and loaded for any seed, sent from node to node."""

import shutil
from threading import Timer

import numpy as np
import photos
import pytest
from PIL import Image
from synthetic import read_document

from tuner.errors import DataError, UnreadableImagesError
from tuner.vision.catalog import DataChoice, ensure_decoded
from tuner.vision.own_images import find_doubts
from tuner.vision.sources import _module, folder
from tuner.vision.sources._decoded import (
    FILES,
    DecodedSet,
    Decoding,
    decode,
    find_decoded_folder,
)


@pytest.fixture
def photos_dir(tmp_path):
    return photos.write(tmp_path / "photos", each=6)


def decoded(photos_dir, store, size=16, bits=None, skip=False):
    images = folder.find(str(photos_dir), store)
    return decode(images, Decoding(size, bits, skip), store=store, name="photos")


def array(path, name):
    return np.load(path / f"{name}.npy", mmap_mode="r", allow_pickle=False)


def info_of(path):
    return read_document(path / "info.json")


def test_decode_runs_once_until_files_change(photos_dir, tmp_path):
    images = folder.find(str(photos_dir), tmp_path)
    expected = find_decoded_folder(images, Decoding(16), store=tmp_path, name="photos")
    first = decoded(photos_dir, tmp_path)
    assert first == expected
    assert array(first, "images").shape == (18, 16, 16, 3)
    assert info_of(first)["bits"] is None
    file = (first / "images.npy").stat()
    assert decoded(photos_dir, tmp_path) == first
    assert (first / "images.npy").stat() == file
    assert decoded(photos_dir, tmp_path, size=8) != first
    Image.fromarray(photos.pixels(1, seed=99)).save(photos_dir / "rose/0003.jpg")
    assert decoded(photos_dir, tmp_path) != first
    assert not list(tmp_path.glob(".partial*"))


def test_decode_keeps_pixels(photos_dir, tmp_path):
    images = array(decoded(photos_dir, tmp_path, size=40), "images")
    with Image.open(photos_dir / "rose/0002.jpg") as image:
        assert np.array_equal(images[8], np.asarray(image)[:, 4:44])


def test_decode_reports_all_unreadable_images(snapshot, photos_dir, tmp_path):
    jpeg = (photos_dir / "rose/0000.jpg").read_bytes()
    (photos_dir / "rose/0000.jpg").write_bytes(jpeg[: len(jpeg) // 2])
    (photos_dir / "tulip/0001.jpg").write_bytes(b"no image")
    with snapshot.raises(UnreadableImagesError):
        decoded(photos_dir, tmp_path)
    assert not list(tmp_path.glob("photos-*"))
    assert not list(tmp_path.glob(".partial*"))


def deep(photos_dir, most):
    """18 grey images of 16 bits, whose pixels go up to `most`."""
    for number, path in enumerate(sorted(photos_dir.rglob("*.jpg"))):
        pixels = np.linspace(0, most * (number + 1) / 18, 40 * 40).reshape(40, 40)
        Image.fromarray(pixels.astype(np.uint16)).save(path.with_suffix(".png"))
        path.unlink()
    return photos_dir


def test_decode_of_deep_images_scales_all_by_the_bits_of_the_set(photos_dir, tmp_path):
    path = decoded(deep(photos_dir, 4095), tmp_path, size=40)
    images = array(path, "images")
    assert len(np.unique(images)) == 256
    brightest = [4095 * (n + 1) // 18 >> 4 for n in range(18)]
    assert images.max((1, 2, 3)).tolist() == brightest
    assert info_of(path)["bits"] == 12


def test_decode_skips_and_lists_unreadable_images(photos_dir, tmp_path):
    expected = np.delete(
        array(decoded(photos_dir, tmp_path / "all"), "images"), [6, 13], axis=0
    )
    names = ("rose/0000.jpg", "tulip/0001.jpg")
    for name in names:
        (photos_dir / name).write_bytes(b"no image")
    path = decoded(photos_dir, tmp_path, skip=True)
    assert np.array_equal(array(path, "images"), expected)
    assert array(path, "labels").tolist() == [0] * 6 + [1] * 5 + [2] * 5
    assert {len(array(path, name)) for name in ("splits", "moments")} == {16}
    reason = "(cannot identify image file)"
    assert info_of(path)["skipped"] == [
        f"{photos_dir / name} {reason}" for name in names
    ]


def test_decode_without_fingerprint_depends_on_the_pixels(tmp_path):
    def images(seed):
        arrays = [photos.pixels(n % 3, seed=seed, size=(9, 9)) for n in range(12)]
        parts = _module.parse_parts((np.stack(arrays), [n % 3 for n in range(12)]), "x")
        return _module.build_images(parts, location="x", title="x")

    first, again, other = (
        decode(images(seed), Decoding(9), store=tmp_path, name="x")
        for seed in (0, 0, 1)
    )
    assert first == again != other
    assert len(list(tmp_path.glob("x-*"))) == 2


def set_of(photos_dir, data_dir, size=16):
    return ensure_decoded(DataChoice(f"folder:{photos_dir}", str(data_dir), size))


@pytest.fixture
def flowers(tmp_path):
    """37 images, of which two are equal."""
    photos_dir = photos.write(tmp_path / "photos", each=12)
    (photos_dir / "tulip/x.jpg").write_bytes(
        (photos_dir / "tulip/0000.jpg").read_bytes()
    )
    return set_of(photos_dir, tmp_path)


def test_info_describes_the_loaded_images(flowers, tmp_path):
    info = flowers.read_info(tmp_path, split_seed=3)
    arrays = info.load(tmp_path, split_seed=3)
    sizes = [len(rows) for rows in arrays.splits.values()]
    assert sizes == [info.train, info.validation, info.test]
    assert sum(sizes) == sum(info.class_counts) == 37
    assert (info.channels, info.image_size, info.classes) == (3, 16, photos.CLASSES)
    pixels = arrays.images_NHWC[arrays.splits["train"]] / 255
    assert info.mean == pytest.approx(pixels.mean((0, 1, 2)))
    assert info.std == pytest.approx(pixels.std((0, 1, 2)))
    assert isinstance(arrays.images_NHWC, np.memmap)
    assert not arrays.images_NHWC.flags.writeable


def test_info_has_user_splits_and_baseline(flowers, tmp_path):
    info = flowers.read_info(tmp_path, split_seed=0)
    assert info.own_splits == ()
    assert info.baseline == pytest.approx(1 / 3, abs=0.1)
    photos_dir = tmp_path / "split"
    for name, each in (("train", 8), ("val", 3), ("test", 3)):
        photos.write(photos_dir / name, each=each)
    (photos_dir / "val/rose/0000.jpg").unlink()
    info = set_of(photos_dir, tmp_path).read_info(tmp_path, split_seed=0)
    assert info.own_splits == ("validation", "test")
    assert info.baseline == 3 / 8


def test_copies_are_in_one_split(flowers, tmp_path):
    twins = {24, 36}  # tulip/0000.jpg and its copy
    for seed in range(12):
        info = flowers.read_info(tmp_path, split_seed=seed)
        arrays = info.load(tmp_path, split_seed=seed)
        splits = [twins & set(rows.tolist()) for rows in arrays.splits.values()]
        assert twins in splits
        assert (info.copies, info.relabelled) == (0, ())
        assert arrays.groups_N.tolist() == [*range(36), 24]


def test_info_lists_copies_of_another_label(photos_dir, tmp_path):
    shutil.copy(photos_dir / "rose/0002.jpg", photos_dir / "tulip/rose.jpg")
    info = set_of(photos_dir, tmp_path).read_info(tmp_path, split_seed=0)
    assert info.relabelled == ("tulip/rose.jpg (tulip) is rose/0002.jpg (rose)",)
    [doubt] = [doubt for doubt in find_doubts(info) if "another label" in doubt]
    assert doubt.endswith("so one of the labels is wrong: " + info.relabelled[0])


def sent(flowers, folder):
    return [each.data for each in flowers.map_contents(folder)]


def test_write_gives_another_node_an_equal_set(snapshot, flowers, tmp_path):
    there = tmp_path / "there"
    assert flowers.is_present(tmp_path)
    assert flowers.is_missing(there)
    with snapshot.raises(DataError):
        flowers.fetch(there)
    flowers.write(there, lambda: sent(flowers, tmp_path), origin="a node")
    assert flowers.is_present(there)
    for name in FILES:
        both = (flowers.resolve_path(folder) / name for folder in (tmp_path, there))
        assert len({path.read_bytes() for path in both}) == 1


def test_await_in_returns_when_the_set_arrives(flowers, tmp_path):
    there = tmp_path / "there"
    flowers.wait_for_arrival(there, patience_s=0)
    contents = sent(flowers, tmp_path)
    arriving = Timer(
        0.2, lambda: flowers.write(there, lambda: contents, origin="a node")
    )
    arriving.start()
    flowers.wait_for_arrival(there, patience_s=60)
    assert flowers.is_present(there)
    arriving.join()


@pytest.mark.parametrize(
    "cut", [lambda files: files[:-1], lambda files: [f[:-1] for f in files]]
)
def test_write_of_an_incomplete_set_keeps_nothing(snapshot, flowers, tmp_path, cut):
    contents = cut(sent(flowers, tmp_path))
    with snapshot.raises(DataError):
        flowers.write(tmp_path / "there", lambda: contents, origin="a node")
    assert flowers.is_missing(tmp_path / "there")


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".hidden", "/etc"])
def test_info_refuses_a_name_that_leads_elsewhere(snapshot, name, tmp_path):
    with snapshot.raises(DataError):
        DecodedSet(name).read_info(tmp_path, split_seed=0)


def test_info_of_a_missing_or_damaged_set_raises(snapshot, flowers, tmp_path):
    with snapshot.raises(DataError):
        DecodedSet("other").read_info(tmp_path, split_seed=0)
    labels = flowers.resolve_path(tmp_path) / "labels.npy"
    labels.write_bytes(labels.read_bytes()[:-8])
    with snapshot.raises(DataError):
        flowers.read_info(tmp_path, split_seed=0)
    np.save(labels, np.array([{}], dtype=object), allow_pickle=True)
    with snapshot.raises(DataError):
        flowers.read_info(tmp_path, split_seed=0)
