"""One image of any kind becomes a square of bytes, and what cannot is told."""

import io

import numpy as np
import pytest
from PIL import Image

from tuner.classifier.sources._pixels import bombs_refused, channels_of, shorter_side, square


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


def test_the_centre_is_cropped_and_resized():
    found = square(Image.fromarray(stripes(40, 120)), size=8, channels=3)
    assert found.shape == (8, 8, 3)
    assert found.dtype == np.uint8
    assert np.all(found[:, 1:-1] == (0, 255, 0))  # the filter is as wide as a pixel


def test_an_array_of_the_right_size_is_as_it_is():
    image = stripes(9, 9)
    assert np.array_equal(square(image, size=9, channels=3), image)


def test_a_large_jpeg_is_the_same_as_one_decoded_in_full():
    smooth = Image.fromarray(stripes(30, 30)).resize((600, 600), Image.Resampling.BICUBIC)
    jpeg = stored(smooth, "JPEG", quality=95)
    fast = square(jpeg, size=32, channels=3).astype(int)
    full = np.asarray(smooth.resize((32, 32), Image.Resampling.BOX)).astype(int)
    assert np.abs(fast - full).mean() < 3


def test_a_photograph_that_lies_on_its_side_is_turned_upright():
    image = Image.fromarray(stripes(60, 60))
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees clockwise
    found = square(stored(image, "JPEG", exif=exif, quality=95), size=60, channels=3)
    upright = square(image.rotate(-90), size=60, channels=3)
    assert np.abs(found.astype(int) - upright).mean() < 4


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "CMYK", "1", "LA"])
def test_every_mode_has_three_channels_if_asked(mode):
    image = Image.new("RGB", (6, 6), (204, 204, 204)).convert(mode)
    assert square(image, size=6, channels=3).shape == (6, 6, 3)
    assert square(image, size=6, channels=1).shape == (6, 6, 1)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "L"])
def test_what_is_transparent_is_white(mode):
    drawing = Image.new("LA", (4, 4))  # black under what is transparent, as most have it
    drawing.paste((60, 255), (0, 0, 4, 2))
    if mode in ("P", "L"):  # with one transparent colour
        drawing = stored(drawing.convert("L").convert(mode), "PNG", transparency=0)
    found = square(drawing if mode in ("P", "L") else drawing.convert(mode), size=4, channels=3)
    assert np.all(found[:2] == 60)
    assert np.all(found[2:] == 255)


@pytest.mark.parametrize("form", ["PNG", "JPEG"])
def test_what_would_lose_its_colours_is_refused(form):
    with pytest.raises(ValueError, match="it is in colour, and others are grey: convert all"):
        square(stored(Image.fromarray(stripes(40, 120)), form), size=8, channels=1)
    scan = Image.fromarray(stripes(40, 120)).convert("L").convert("RGB")
    assert square(stored(scan, form), size=8, channels=1).shape == (8, 8, 1)


def test_sixteen_bits_keep_their_upper_eight():
    image = Image.fromarray(np.full((4, 4), 0x8123, np.uint16))
    assert np.all(square(image, size=4, channels=1) == 0x81)
    with pytest.raises(ValueError, match="pixels of 32 bits"):
        square(Image.fromarray(np.ones((4, 4), np.float32)), size=4, channels=1)


@pytest.mark.parametrize(
    ("image", "told"),
    [
        (np.zeros((4, 4, 3)), "array of uint8 .give no transform., got ndarray of float64"),
        (np.zeros((3, 4, 4), np.uint8), r"must have shape .*, got \(3, 4, 4\)"),
        (np.zeros((0, 4), np.uint8), r"got \(0, 4, 1\)"),
        ("a.jpg", "got str of"),
    ],
)
def test_what_is_no_image_is_told(image, told):
    with pytest.raises(ValueError, match=told):
        square(image, size=4, channels=3)


def test_channels_and_sizes():
    assert [channels_of(Image.new(mode, (3, 5))) for mode in ("L", "1", "RGB", "P")] == [1, 1, 3, 3]
    assert channels_of(np.zeros((7, 5), np.uint8)) == 1
    assert shorter_side(np.zeros((7, 5), np.uint8)) == 5
    assert shorter_side(Image.new("L", (3, 5))) == 3


def test_a_decompression_bomb_is_an_error_where_pillow_only_warns(monkeypatch):
    file = io.BytesIO()
    Image.new("L", (20, 20)).save(file, "PNG")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 300)
    with bombs_refused(), pytest.raises(Image.DecompressionBombWarning):
        Image.open(file)
