"""One image of any kind becomes a square of bytes; others are refused."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from tuner.vision.sources._pixels import (
    bits_used,
    bombs_refused,
    channels_of,
    open_image,
    shorter_side,
    square,
)


def stripes(height, width):
    """Its left third is red, its right one blue, the middle green."""
    image = np.zeros((height, width, 3), np.uint8)
    for channel, part in enumerate((slice(0, width // 3), slice(width // 3, -(width // 3)))):
        image[:, part, channel] = 255
    image[:, -(width // 3) :, 2] = 255
    return image


def stored(image, form, **how):
    file = io.BytesIO()
    image.save(file, form, **how)
    return Image.open(file)


def test_square_crops_the_centre_and_resizes():
    found = square(Image.fromarray(stripes(40, 120)), size=8, channels=3)
    assert found.shape == (8, 8, 3)
    assert found.dtype == np.uint8
    assert np.all(found[:, 1:-1] == (0, 255, 0))  # the filter is as wide as a pixel


def test_square_of_an_array_of_the_right_size_is_equal():
    image = stripes(9, 9)
    assert np.array_equal(square(image, size=9, channels=3), image)


def test_square_of_a_large_jpeg_equals_one_decoded_in_full():
    smooth = Image.fromarray(stripes(30, 30)).resize((600, 600), Image.Resampling.BICUBIC)
    jpeg = stored(smooth, "JPEG", quality=95)
    fast = square(jpeg, size=32, channels=3).astype(int)
    full = np.asarray(smooth.resize((32, 32), Image.Resampling.BOX)).astype(int)
    assert np.abs(fast - full).mean() < 3


def test_square_turns_a_photograph_upright():
    image = Image.fromarray(stripes(60, 60))
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees clockwise
    found = square(stored(image, "JPEG", exif=exif, quality=95), size=60, channels=3)
    upright = square(image.rotate(-90), size=60, channels=3)
    assert np.abs(found.astype(int) - upright).mean() < 4


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "CMYK", "1", "LA"])
def test_square_converts_every_mode(mode):
    image = Image.new("RGB", (6, 6), (204, 204, 204)).convert(mode)
    assert square(image, size=6, channels=3).shape == (6, 6, 3)
    assert square(image, size=6, channels=1).shape == (6, 6, 1)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "L"])
def test_square_puts_transparent_images_on_white(mode):
    drawing = Image.new("LA", (4, 4))  # black under what is transparent, as most have it
    drawing.paste((60, 255), (0, 0, 4, 2))
    if mode in ("P", "L"):  # with one transparent colour
        drawing = stored(drawing.convert("L").convert(mode), "PNG", transparency=0)
    found = square(drawing if mode in ("P", "L") else drawing.convert(mode), size=4, channels=3)
    assert np.all(found[:2] == 60)
    assert np.all(found[2:] == 255)


@pytest.mark.parametrize("form", ["PNG", "JPEG"])
def test_square_with_one_channel_refuses_colours(form):
    with pytest.raises(ValueError, match="it is in colour, and others are grey: convert all"):
        square(stored(Image.fromarray(stripes(40, 120)), form), size=8, channels=1)
    scan = Image.fromarray(stripes(40, 120)).convert("L").convert("RGB")
    assert square(stored(scan, form), size=8, channels=1).shape == (8, 8, 1)


def test_square_of_16_bits_keeps_the_upper_8():
    image = Image.fromarray(np.full((4, 4), 0x8123, np.uint16))
    assert np.all(square(image, size=4, channels=1) == 0x81)


@pytest.mark.parametrize(
    ("pixels", "rule"),
    [
        (np.ones((4, 4), np.float32), "pixels of 32 bits"),
        (np.full((4, 4), 4095, np.uint16), r"uses 12 of 16 bits, .* say how many bits"),
    ],
)
def test_square_of_a_deep_image_of_unknown_bits_raises(pixels, rule):
    with pytest.raises(ValueError, match=rule):
        square(Image.fromarray(pixels), size=4, channels=1)


@pytest.mark.parametrize("bits", range(8, 17))
def test_square_of_a_deep_image_takes_the_upper_8_of_its_bits(bits):
    image = Image.fromarray(np.full((4, 4), (1 << bits) - 1, np.uint16))
    assert bits_used(image) == bits
    assert np.all(square(image, size=4, channels=1, bits=bits) == 255)
    half = Image.fromarray(np.full((4, 4), 1 << (bits - 1), np.uint16))
    assert np.all(square(half, size=4, channels=1, bits=bits) == 128)


def test_square_of_an_image_beyond_its_bits_is_refused_but_for_dead_pixels():
    pixels = np.full((20, 20), 2048, np.uint16)
    pixels[0, 0] = 65535
    found = square(Image.fromarray(pixels), size=20, channels=1, bits=12)
    assert (found[0, 0], found[1, 1]) == (255, 128)
    pixels[:1] = 65535
    with pytest.raises(ValueError, match="go up to 65535, beyond the 12 bits"):
        square(Image.fromarray(pixels), size=20, channels=1, bits=12)


def test_square_of_a_colour_of_16_bits_of_which_12_are_used_is_refused(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(deep_png(np.full((4, 4, 3), 4095)))
    assert bits_used(open_image(path)) == 12  # Pillow reads it as 15 of 255
    with pytest.raises(ValueError, match="convert it to 8 bits"):
        square(open_image(path), size=4, channels=3, bits=12)
    path.write_bytes(deep_png(np.full((4, 4, 3), 0x8123)))
    assert np.all(square(open_image(path), size=4, channels=3, bits=16) == 0x81)


def deep_png(pixels):
    """An RGB image of 16 bits, which Pillow does not write."""
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], 16, 2, 0, 0, 0)
    chunks = {b"IHDR": header, b"IDAT": zlib.compress(rows), b"IEND": b""}
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks.items()
    )


@pytest.mark.parametrize("depth", [4095, 65535])
def test_square_reads_pgm_of_more_than_8_bits(depth, tmp_path):
    pixels = np.full((4, 4), depth // 2 + 1, ">u2")
    (tmp_path / "a.pgm").write_bytes(b"P5 4 4 %d\n" % depth + pixels.tobytes())
    assert np.all(square(open_image(tmp_path / "a.pgm"), size=4, channels=1) == 128)


@pytest.mark.parametrize(
    ("image", "rule"),
    [
        (np.zeros((4, 4, 3)), "array of uint8 .give no transform., got ndarray of float64"),
        (np.zeros((3, 4, 4), np.uint8), r"must have shape .*, got \(3, 4, 4\)"),
        (np.zeros((0, 4), np.uint8), r"got \(0, 4, 1\)"),
        ("a.jpg", "got str of"),
    ],
)
def test_square_rejects_what_is_no_image(image, rule):
    with pytest.raises(ValueError, match=rule):
        square(image, size=4, channels=3)


def test_channels_of_and_shorter_side():
    assert [channels_of(Image.new(mode, (3, 5))) for mode in ("L", "1", "RGB", "P")] == [1, 1, 3, 3]
    assert channels_of(np.zeros((7, 5), np.uint8)) == 1
    assert shorter_side(np.zeros((7, 5), np.uint8)) == 5
    assert shorter_side(Image.new("L", (3, 5))) == 3


@pytest.fixture
def limit(monkeypatch):
    """Pillow's limit of pixels, so low that small images are beyond it."""
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100_000)


@pytest.mark.parametrize("side", [400, 900])  # Pillow warns up to twice its limit, then raises
def test_open_image_reads_a_large_baseline_jpeg_at_reduced_size(side, limit, tmp_path):
    picture = Image.fromarray(stripes(30, 30)).resize((side, side), Image.Resampling.BICUBIC)
    picture.save(tmp_path / "a.jpg", quality=95)
    with bombs_refused():
        image = open_image(tmp_path / "a.jpg")
    found = square(image, size=32, channels=3).astype(int)
    assert max(image.size) <= side // 4
    full = np.asarray(picture.resize((32, 32), Image.Resampling.BOX)).astype(int)
    assert np.abs(found - full).mean() < 4


def with_a_scan_for_each_channel(jpeg):
    begin = jpeg.index(b"\xff\xda")
    return jpeg[:begin] + b"\xff\xda\0\x08\x01\x01\0\0\x3f\0" + jpeg[begin + 14 :]


@pytest.mark.parametrize(
    ("suffix", "how", "change"),
    [
        ("jpg", {"progressive": True}, bytes),
        ("png", {}, bytes),
        ("jpg", {}, with_a_scan_for_each_channel),
    ],
)
def test_open_image_refuses_large_images_that_are_decoded_in_full(
    suffix, how, change, limit, tmp_path
):
    path = tmp_path / f"a.{suffix}"
    Image.new("RGB", (400, 400)).save(path, **how)
    path.write_bytes(change(path.read_bytes()))
    with bombs_refused(), pytest.raises(ValueError, match=r"more than 100,000 pixels.*baseline"):
        open_image(path)


def test_square_refuses_a_jpeg_that_stays_too_large(limit, tmp_path):
    Image.new("RGB", (400, 400)).save(tmp_path / "a.jpg")
    with bombs_refused():
        image = open_image(tmp_path / "a.jpg")
    with pytest.raises(ValueError, match="when reduced to 400 x 400, too"):
        square(image, size=300, channels=3)
