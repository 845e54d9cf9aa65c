import base64
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from tuner.reporting.pictures import add_thumbnails, parse_pictures

ENTRY = {"file": "/x/a.jpg", "label": "rose", "predicted": "tulip", "probability": 0.9}


def write(path, side=300):
    noise = np.random.default_rng(0).integers(0, 256, (side, side, 3), np.uint8)
    Image.fromarray(noise).save(path)
    return {**ENTRY, "file": str(path)}


@pytest.mark.parametrize(
    "record", [None, {}, {"mistakes": 3}, {"mistakes": [3, {"file": 1}]}]
)
def test_pictures_in_leaves_out_what_has_another_shape(record):
    assert parse_pictures(record, "mistakes", "predicted") == []


def test_with_thumbnails_shrinks_the_files_that_are_here(tmp_path):
    (tmp_path / "text.jpg").write_text("no image")
    entries = [
        {**ENTRY, "file": str(tmp_path / name)} for name in ("gone.jpg", "text.jpg")
    ]
    entries.insert(0, write(tmp_path / "a.jpg"))
    pictures = parse_pictures({"mistakes": entries}, "mistakes", "predicted")
    shown, *others = add_thumbnails(pictures)
    head, _, data = shown.url.partition(",")
    assert head == "data:image/jpeg;base64"
    assert max(Image.open(BytesIO(base64.b64decode(data))).size) == 96
    assert (shown.label, shown.other, shown.probability) == ("rose", "tulip", 0.9)
    assert [picture.url for picture in others] == [None, None]


def test_with_thumbnails_stops_at_the_limit_of_bytes(tmp_path):
    entries = [write(tmp_path / f"{number}.png") for number in range(4)]
    pictures = parse_pictures({"mistakes": entries}, "mistakes", "predicted")
    size = len(next(add_thumbnails(pictures)).url) * 3 // 4
    shown = [picture.url is not None for picture in add_thumbnails(pictures, 2 * size)]
    assert shown == [True, True, False, False]
