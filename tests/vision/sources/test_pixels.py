"""Images made square."""

import io

import numpy as np
import pytest
from PIL import Image

from tuner.vision.sources._pixels import count_bits, crop_square


def stripes(height, width):
    """Its left third is red, its right one blue, the middle green."""
    colours = 255 * np.eye(3, dtype=np.uint8)
    return np.broadcast_to(colours.repeat(width // 3, 0), (height, width, 3)).copy()


def stored(image, form, **how):
    file = io.BytesIO()
    image.save(file, form, **how)
    return Image.open(file)


def test_square_crops_the_centre_and_resizes():
    pixels = crop_square(Image.fromarray(stripes(40, 120)), size=8, channels=3)
    assert pixels.shape == (8, 8, 3)
    assert pixels.dtype == np.uint8
    assert np.all(pixels[:, 1:-1] == (0, 255, 0))  # the filter is as wide as a pixel


def test_square_of_an_array_of_the_right_size_is_equal():
    image = stripes(9, 9)
    assert np.array_equal(crop_square(image, size=9, channels=3), image)


def test_square_of_a_large_jpeg_equals_one_decoded_in_full():
    smooth = Image.fromarray(stripes(30, 30)).resize(
        (600, 600), Image.Resampling.BICUBIC
    )
    jpeg = stored(smooth, "JPEG", quality=95)
    fast = crop_square(jpeg, size=32, channels=3).astype(int)
    full = np.asarray(smooth.resize((32, 32), Image.Resampling.BOX)).astype(int)
    assert np.abs(fast - full).mean() < 3


@pytest.mark.parametrize("form", ["PNG", "JPEG"])
def test_square_with_one_channel_refuses_colours(form):
    with pytest.raises(ValueError, match="it is in colour"):
        crop_square(stored(Image.fromarray(stripes(40, 120)), form), size=8, channels=1)
    scan = Image.fromarray(stripes(40, 120)).convert("L").convert("RGB")
    assert crop_square(stored(scan, form), size=8, channels=1).shape == (8, 8, 1)


@pytest.mark.parametrize("bits", [8, 12, 16])
def test_square_of_a_deep_image_takes_the_upper_8_of_its_bits(bits):
    most = (1 << bits) - 1
    image = Image.fromarray(np.array([[most, most // 2 + 1]] * 2, np.uint16))
    assert count_bits(image) == bits
    pixels = crop_square(image, size=2, channels=1, bits=bits)
    assert pixels[:, :, 0].tolist() == [[255, 128]] * 2


def test_square_beyond_bits_raises_for_many_pixels():
    pixels = np.full((20, 20), 2048, np.uint16)
    pixels[0, 0] = 65535
    scaled = crop_square(Image.fromarray(pixels), size=20, channels=1, bits=12)
    assert (scaled[0, 0], scaled[1, 1]) == (255, 128)
    pixels[:1] = 65535
    with pytest.raises(ValueError, match="beyond the 12 bits"):
        crop_square(Image.fromarray(pixels), size=20, channels=1, bits=12)


@pytest.mark.parametrize("depth", [4095, 65535])
def test_square_reads_pgm_of_more_than_8_bits(depth, tmp_path):
    pixels = np.full((4, 4), depth // 2 + 1, ">u2")
    (tmp_path / "a.pgm").write_bytes(b"P5 4 4 %d\n" % depth + pixels.tobytes())
    assert np.all(
        crop_square(Image.open(tmp_path / "a.pgm"), size=4, channels=1) == 128
    )


@pytest.mark.parametrize(
    "image",
    [
        np.zeros((4, 4, 3)),
        np.zeros((3, 4, 4), np.uint8),
        np.zeros((0, 4), np.uint8),
        "a.jpg",
        Image.fromarray(np.ones((4, 4), np.float32)),
    ],
)
def test_square_rejects_what_is_no_image(image, snapshot):
    with snapshot.raises(ValueError):
        crop_square(image, size=4, channels=3)
