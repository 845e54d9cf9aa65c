"""Decoding, once: what is written, when it is written anew, and what is told of bad images."""

import json

import numpy as np
import photos
import pytest
from PIL import Image

from tuner.errors import DataError, UnreadableImagesError
from tuner.vision.sources import _module, folder
from tuner.vision.sources._decode import Decoding, decode, decoded_path


@pytest.fixture
def place(tmp_path):
    return photos.write(tmp_path / "photos", each=6)


def decoded(place, store, size=16, bits=None, skip=False):
    images = folder.find(str(place), store)
    return decode(images, Decoding(size, bits, skip), store=store, name="photos")


def array(path, name):
    return np.load(path / f"{name}.npy", mmap_mode="r", allow_pickle=False)


def test_it_is_done_once_and_anew_when_files_change(place, tmp_path, monkeypatch):
    first = decoded(place, tmp_path)
    assert array(first, "images").shape == (18, 16, 16, 3)
    assert array(first, "labels").tolist() == [0] * 6 + [1] * 6 + [2] * 6
    stamp = (first / "images.npy").stat().st_mtime_ns
    assert decoded(place, tmp_path) == first
    assert (first / "images.npy").stat().st_mtime_ns == stamp
    assert decoded(place, tmp_path, size=8) != first
    Image.fromarray(photos.pixels(1, seed=99)).save(place / "rose" / "0003.jpg")
    assert decoded(place, tmp_path) != first
    assert not list(tmp_path.glob(".partial*"))


def test_where_it_lies_is_known_before(place, tmp_path):
    images = folder.find(str(place), tmp_path)
    expected = decoded_path(images, Decoding(16), store=tmp_path, name="photos")
    assert not expected.exists()
    assert decoded(place, tmp_path) == expected


def test_the_pixels_are_those_of_the_files(place, tmp_path):
    found = array(decoded(place, tmp_path, size=40), "images")
    with Image.open(place / "rose" / "0002.jpg") as image:
        expected = np.asarray(image)[:, 4:44]
    assert np.array_equal(found[8], expected)


def test_the_moments_are_exact(place, tmp_path):
    path = decoded(place, tmp_path)
    images, moments = array(path, "images").astype(np.int64), array(path, "moments")
    assert np.array_equal(moments[:, 0], images.sum((1, 2)))
    assert np.array_equal(moments[:, 1], (images**2).sum((1, 2)))


def test_copies_are_found(place, tmp_path):
    for name in ("rose/7.jpg", "tulip/8.jpg"):
        (place / name).write_bytes((place / "daisy" / "0001.jpg").read_bytes())
    rows = array(decoded(place, tmp_path), "copies")
    assert rows[:, 0].tolist() == [1, 12, 19]
    assert set(rows[:, 1].tolist()) == {0}


def test_all_images_that_cannot_be_read_are_told_at_once(place, tmp_path):
    jpeg = (place / "rose" / "0000.jpg").read_bytes()
    (place / "rose" / "0000.jpg").write_bytes(jpeg[: len(jpeg) // 2])
    (place / "tulip" / "0001.jpg").write_bytes(b"no image")
    with pytest.raises(DataError) as error:
        decoded(place, tmp_path)
    told = str(error.value)
    assert told.startswith("photos, a folder of images: 2 of 18 images cannot be read: ")
    assert f"{place / 'rose' / '0000.jpg'} (" in told
    assert "truncated" in told
    assert not list(tmp_path.glob("photos-*"))
    assert not list(tmp_path.glob(".partial*"))


@pytest.mark.filterwarnings("default")
def test_a_decompression_bomb_is_one_clear_error(place, tmp_path, monkeypatch):
    Image.new("L", (60, 60)).save(place / "rose" / "bomb.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 3000)  # Pillow itself only warns up to twice
    with pytest.raises(DataError, match=r"1 of 19 images .*bomb\.png \(.* decompression bomb"):
        decoded(place, tmp_path)


def deep(place, most):
    """18 grey images of 16 bits, whose pixels go up to `most`."""
    for number, path in enumerate(sorted(place.rglob("*.jpg"))):
        pixels = np.linspace(0, most * (number + 1) / 18, 40 * 40).reshape(40, 40)
        Image.fromarray(pixels.astype(np.uint16)).save(path.with_suffix(".png"))
        path.unlink()
    return place


@pytest.mark.parametrize("bits", [12, 16])
def test_decode_of_deep_images_scales_all_by_the_bits_that_the_set_uses(bits, place, tmp_path):
    most = (1 << bits) - 1
    path = decoded(deep(place, most), tmp_path, size=40)
    images = array(path, "images")
    assert len(np.unique(images)) == 256
    assert [image.max() for image in images] == [
        most * (n + 1) // 18 >> bits - 8 for n in range(18)
    ]
    assert json.loads((path / "info.json").read_text())["bits"] == bits


def test_decode_with_bits_keeps_that_scale(place, tmp_path):
    path = decoded(deep(place, 4095), tmp_path, size=40, bits=14)
    assert array(path, "images").max() == 255 // 4
    assert json.loads((path / "info.json").read_text())["bits"] == 14


def test_decode_of_8_bits_records_no_bits(place, tmp_path):
    assert json.loads((decoded(place, tmp_path) / "info.json").read_text())["bits"] is None


def test_decode_skips_what_cannot_be_read_and_lists_it(place, tmp_path):
    expected = np.delete(array(decoded(place, tmp_path / "all"), "images"), [6, 13], axis=0)
    for name in ("rose/0000.jpg", "tulip/0001.jpg"):
        (place / name).write_bytes(b"no image")
    path = decoded(place, tmp_path, skip=True)
    assert np.array_equal(array(path, "images"), expected)
    assert array(path, "labels").tolist() == [0] * 6 + [1] * 5 + [2] * 5
    assert {len(array(path, name)) for name in ("splits", "moments")} == {16}
    assert json.loads((path / "info.json").read_text())["skipped"] == [
        f"{place / name} (cannot identify image file)"
        for name in ("rose/0000.jpg", "tulip/0001.jpg")
    ]


def test_decode_that_skips_a_whole_class_is_refused(place, tmp_path):
    for path in (place / "rose").iterdir():
        path.write_bytes(b"no image")
    with pytest.raises(
        UnreadableImagesError, match=r"without the 6 of 18 .* every class; .*: rose"
    ):
        decoded(place, tmp_path, skip=True)


def test_what_has_no_fingerprint_is_known_by_its_pixels(tmp_path):
    def images(seed):
        arrays = [photos.pixels(n % 3, seed=seed, size=(9, 9)) for n in range(12)]
        parts = _module.parts_of((np.stack(arrays), [n % 3 for n in range(12)]), "x")
        return _module.images_of(parts, place="x", title="x")

    first, again, other = (
        decode(images(seed), Decoding(9), store=tmp_path, name="x") for seed in (0, 0, 1)
    )
    assert first == again != other
    assert len(list(tmp_path.glob("x-*"))) == 2


def test_a_full_disk_is_an_error_and_no_end_of_the_process(place, tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tuner.vision.sources._decode._write_header", full)
    with pytest.raises(OSError, match="No space left"):
        decoded(place, tmp_path)
    assert not list(tmp_path.glob(".partial*"))
