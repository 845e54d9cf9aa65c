"""Images of a test's record in words, and their thumbnails."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

from tuner.wording import clean_text

_SIDE = 96  # px of a thumbnail
_MOST_BYTES = 220_000  # of all thumbnails of a page; base64 makes four bytes of three


@dataclass(frozen=True, slots=True)
class Picture:
    """An image file in words, and its thumbnail as a data URL, if it can be shown."""

    file: str
    label: str
    other: str
    probability: float
    url: str | None = None


def parse_pictures(
    measured: Mapping[str, Any] | None, name: str, other: str
) -> list[Picture]:
    """The images of the list `name` in a record, which may be someone else's, without thumbnails.

    other: the key of the class that is not the label. Entries of another shape are left out.
    """
    entries = (measured or {}).get(name)
    return [
        Picture(
            clean_text(e["file"]),
            clean_text(e["label"]),
            clean_text(e[other]),
            e["probability"],
        )
        for e in (entries if isinstance(entries, list) else [])
        if isinstance(e, dict)
        and all(isinstance(e.get(key), str) for key in ("file", "label", other))
        and isinstance(e.get("probability"), float)
    ]


def add_thumbnails(
    pictures: list[Picture], most_bytes: int = _MOST_BYTES
) -> Iterator[Picture]:
    """`pictures`, those with a thumbnail whose files are here, up to `most_bytes` in all."""
    for picture in pictures:
        jpeg = create_thumbnail(picture)
        if jpeg is None or len(jpeg) > most_bytes:
            yield picture
            continue
        most_bytes -= len(jpeg)
        url = f"data:image/jpeg;base64,{b64encode(jpeg).decode()}"
        yield replace(picture, url=url)


def create_thumbnail(picture: Picture) -> bytes | None:
    """A small JPEG of the picture's file; None if it is not here, or no decoder reads it."""
    from PIL import Image, ImageOps

    path = Path(picture.file)
    try:
        if not path.is_absolute() or not path.is_file():  # a pipe might never end
            return None
        with Image.open(path) as image:
            image.draft("RGB", (_SIDE, _SIDE))
            small = ImageOps.exif_transpose(image).convert("RGB")
            small.thumbnail((_SIDE, _SIDE))
            buffer = BytesIO()
            small.save(buffer, "JPEG", quality=75)
            return buffer.getvalue()
    except Exception:  # Pillow's decoders raise any type
        return None
