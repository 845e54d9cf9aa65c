"""Folders of a user's own images, and the default experiments of them."""

from io import BytesIO

import yaml
from PIL import Image

from tuner.search.preparation import prepare
from tuner.spec.validation import validate
from tuner.vision.default_search import (
    build_default_experiment,
)


def write_pngs(folder, *, each, size, classes="ab"):
    """The same image of `size` px, so many times in each class."""
    file = BytesIO()
    Image.new("RGB", size).save(file, "PNG")
    for name in classes:
        (folder / name).mkdir(parents=True)
        for number in range(each):
            (folder / name / f"{number}.png").write_bytes(file.getvalue())


def build_default(photos_dir, **training):
    """The default experiment, if the user sets `training`."""
    return build_default_experiment(f"folder:{photos_dir}", photos_dir, training, {})


def validate_default(photos_dir, **changes):
    raw = build_default(photos_dir)
    raw["training"] |= changes
    return validate(raw)


def pin_data(spec):
    return prepare(spec).pin_data().data


def render_yaml(values):
    return yaml.safe_dump(values, sort_keys=False, default_flow_style=None, width=1000)
