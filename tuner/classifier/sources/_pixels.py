"""One image as square pixels: opened, turned upright, cropped and resized by Pillow."""

# H W pixels, C channels

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL import Image

_MODES = {1: "L", 3: "RGB"}
_GRAY = ("1", "L", "I;16", "I;16L", "I;16B", "I;16N")
_GRAYISH = 32  # of 255 by which the channels of a grey image may differ once it was compressed
_REDUCING_GAP = 2.0  # what is reduced fast leaves twice the pixels to what is resized well


def open_image(path: Path) -> Image.Image:
    """The image in a file, its header read. Raises what Pillow does."""
    from PIL import Image

    return Image.open(path)


@contextmanager
def bombs_refused() -> Iterator[None]:
    """Let Pillow raise at its limit of pixels, where of itself it warns up to twice as many.

    Warnings are the whole process's, so enter it before threads begin.
    """
    from PIL import Image

    with warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield


def channels_of(image: Any) -> int:
    """1 or 3, by the first of some images: a Pillow image, or an array. Raises ValueError."""
    if _is_pillow(image):
        return 1 if image.mode in _GRAY else 3
    return int(_as_array(image).shape[2])


def shorter_side(image: Any) -> int:
    """In px, of a Pillow image or an array. Raises ValueError."""
    if _is_pillow(image):
        return int(min(image.size))
    return int(min(_as_array(image).shape[:2]))


def square(image: Any, *, size: int, channels: int) -> NDArray[np.uint8]:
    """(size, size, channels) of the centre of a Pillow image or an array of uint8.

    The largest square in the middle, resized; what is transparent is white. A JPEG is decoded at a
    fraction of its size where that is enough. Raises ValueError, also for one in colour where one
    channel is asked for, and what Pillow does.
    """
    import numpy as np
    from PIL import Image, ImageOps

    if not _is_pillow(image):
        pixels = _as_array(image)
        if pixels.shape == (size, size, channels):
            return pixels
        image = Image.fromarray(pixels if pixels.shape[2] == 3 else pixels[:, :, 0])
    mode = _MODES[channels]
    if image.format == "JPEG":
        image.draft(None, (round(_REDUCING_GAP * size),) * 2)
    ImageOps.exif_transpose(image, in_place=True)
    image = _opaque(_eight_bits(image))
    if channels == 1 and channels_of(image) == 3:
        _refuse_colour(image)
    image = image.convert(mode)
    width, height = image.size
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    if image.size != (size, size):
        box = (left, top, left + side, top + side)
        bilinear = Image.Resampling.BILINEAR
        image = image.resize((size, size), bilinear, box=box, reducing_gap=_REDUCING_GAP)
    return np.asarray(image).reshape(size, size, channels)


def _is_pillow(image: Any) -> bool:
    """A mode is a text: torch's tensors have a property of that name."""
    return isinstance(getattr(image, "mode", None), str)


def _eight_bits(image: Image.Image) -> Image.Image:
    """Pillow itself would clip what has more bits: most of it would be white."""
    import numpy as np
    from PIL import Image

    if image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode in ("I", "F"):
        raise ValueError(f"it has pixels of 32 bits (mode {image.mode}), must have 8 or 16")
    return image


def _opaque(image: Image.Image) -> Image.Image:
    """On white, as viewers show it: under what is transparent a file may hold any colour.

    Pillow itself would show that: all of a black drawing on nothing is black.
    """
    from PIL import Image

    if not image.has_transparency_data:
        return image
    image = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)


def _refuse_colour(image: Image.Image) -> None:
    """Raise ValueError for what would lose its colours; those of a scan may be three equal ones."""
    import numpy as np

    if np.ptp(np.asarray(image.convert("RGB")), axis=2).max() > _GRAYISH:
        raise ValueError("it is in colour, and others are grey: convert all to one of these")


def _as_array(image: Any) -> NDArray[np.uint8]:
    """(H, W, C) of what is no Pillow image."""
    import numpy as np

    pixels = np.asarray(image)
    if pixels.dtype != np.uint8:
        rule = "an image must be a Pillow image or an array of uint8 (give no transform)"
        raise ValueError(f"{rule}, got {type(image).__name__} of {pixels.dtype}")
    if pixels.ndim == 2:
        pixels = pixels[:, :, None]
    if pixels.ndim != 3 or pixels.shape[2] not in _MODES or 0 in pixels.shape:
        raise ValueError(
            f"an image must have shape (H, W), (H, W, 1) or (H, W, 3), got {pixels.shape}"
        )
    return pixels
