"""The pixels of one image, made square by Pillow: turned upright, cropped and resized."""

# N images, K classes, H W pixels, C channels

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL import Image

_MODES = {1: "L", 3: "RGB"}
_GRAY = ("1", "L", "I;16", "I;16L", "I;16B", "I;16N")
DEEPEST = 16  # bits of a channel
# Of an image's pixels may be beyond its bits: a sensor has dead pixels
_OUTLIERS = 0.01
# Of 255 by which the channels of a grey image may differ once it was compressed
_GRAYISH = 32
# What is reduced fast leaves twice the pixels to what is resized well
_REDUCING_GAP = 2.0


def count_channels(image: Any) -> int:
    """1 or 3, of a Pillow image or an array. Raises ValueError."""
    if _is_pillow(image):
        return 1 if image.mode in _GRAY else 3
    return int(_convert_array(image).shape[2])


def measure_shorter_side(image: Any) -> int:
    """In px, of a Pillow image or an array. Raises ValueError."""
    return int(
        min(image.size if _is_pillow(image) else _convert_array(image).shape[:2])
    )


def count_bits(image: Any) -> int | None:
    """The bits, 8 to 16, of a deep grey image's brightest pixel, or None. Raises ValueError."""
    import numpy as np

    if not _is_pillow(image) or image.mode[0] not in "IF":
        return None
    pixels = np.asarray(image)
    if image.mode == "F" or pixels.min() < 0 or pixels.max() >= 1 << DEEPEST:
        raise ValueError(
            f"it has pixels of 32 bits (mode {image.mode}), must have 8 or 16"
        )
    return max(8, int(pixels.max()).bit_length())


def crop_square(
    image: Any, *, size: int, channels: int, bits: int | None = None
) -> NDArray[np.uint8]:
    """(size, size, channels) of the centre of a Pillow image or an array of uint8.

    The largest square in the middle, resized, on white. A JPEG is decoded at a fraction of its size
    if that is enough. bits: the bits that deep grey images use, of which the upper 8 are taken;
    default 16. Raises ValueError, also for colours if there is one channel, and what Pillow raises.
    """
    import numpy as np
    from PIL import Image, ImageOps

    if not _is_pillow(image):
        pixels = _convert_array(image)
        if pixels.shape == (size, size, channels):
            return pixels
        image = Image.fromarray(pixels if pixels.shape[2] == 3 else pixels[:, :, 0])
    if image.format == "JPEG":
        image.draft(None, (round(_REDUCING_GAP * size),) * 2)
    is_deep = count_bits(image) is not None
    ImageOps.exif_transpose(image, in_place=True)
    image = _remove_transparency(
        _keep_upper_bits(image, bits or DEEPEST) if is_deep else image
    )
    if (
        channels < count_channels(image)
        and np.ptp(image.convert("RGB"), axis=2).max() > _GRAYISH
    ):
        raise ValueError(
            "it is in colour, and others are grey: convert all to one of these"
        )
    image = image.convert(_MODES[channels])
    if image.size != (size, size):
        width, height = image.size
        side = min(width, height)
        left = (width - side) // 2
        top = (height - side) // 2
        box = (left, top, left + side, top + side)
        bilinear = Image.Resampling.BILINEAR
        image = image.resize(
            (size, size), bilinear, box=box, reducing_gap=_REDUCING_GAP
        )
    return np.asarray(image).reshape(size, size, channels)


def _is_pillow(image: Any) -> bool:
    """torch's tensors have a `mode` as well, but no string."""
    return isinstance(getattr(image, "mode", None), str)


def _keep_upper_bits(image: Image.Image, bits: int) -> Image.Image:
    """The upper 8 of `bits`. Pillow would clip: most of the image would be white."""
    import numpy as np
    from PIL import Image

    pixels = np.asarray(image)
    if np.mean(pixels >= 1 << bits) > _OUTLIERS:
        raise ValueError(
            f"its pixels go up to {pixels.max()}, beyond the {bits} bits of the images"
        )
    return Image.fromarray(np.minimum(pixels >> (bits - 8), 255).astype(np.uint8))


def _remove_transparency(image: Image.Image) -> Image.Image:
    """The image on white, as viewers show it; Pillow shows the colour under the transparency."""
    from PIL import Image

    if not image.has_transparency_data:
        return image
    image = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)


def _convert_array(image: Any) -> NDArray[np.uint8]:
    """(H, W, C) of an array. Raises ValueError."""
    import numpy as np

    pixels = np.asarray(image)
    if pixels.dtype != np.uint8:
        rule = (
            "an image must be a Pillow image or an array of uint8 (give no transform)"
        )
        raise ValueError(f"{rule}, got {type(image).__name__} of {pixels.dtype}")
    if pixels.ndim == 2:
        pixels = pixels[:, :, None]
    if pixels.ndim != 3 or pixels.shape[2] not in _MODES or 0 in pixels.shape:
        raise ValueError(
            f"an image must have shape (H, W), (H, W, 1) or (H, W, 3), got {pixels.shape}"
        )
    return pixels
