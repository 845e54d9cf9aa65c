"""docs/data.md is true: its commands run, and it names what there is."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import photos
import pytest
from pages import Page
from PIL import Image

from tuner.vision.catalog import DATASETS, SOURCES
from tuner.vision.settings import ClassifierSettings
from tuner.vision.sources._images import LARGEST_SIZE, SHARE
from tuner.vision.sources.folder import SUFFIXES

PAGE = Page("docs/data.md")
TEXT = PAGE.text


@pytest.mark.docs
def test_page_commands_run(ray_here: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TUNER_STORAGE", str(tmp_path / "results"))
    monkeypatch.setenv("TUNER_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    photos.write(tmp_path / "photos", each=40)
    photos.write(tmp_path / "new_photos", each=4, seed=1000)
    PAGE.write_files(tmp_path)
    PAGE.run_commands()


def test_page_names_exist_in_code() -> None:
    table = TEXT.partition("| | |")[2].partition("\n\n")[0]
    for form in (*DATASETS, *(source.form for source in SOURCES.values())):
        assert f"`{form}`" in table
    for name in re.findall(r"`training\.(\w+)[`=]", TEXT):
        assert name in ClassifierSettings.model_fields
    formats = re.search(r"Read are (.*?)\. A link", TEXT, re.DOTALL)
    assert formats
    named = set(re.findall(r"\b[A-Z]\w*[A-Z]\w*\b", formats[1]))
    registered = Image.registered_extensions()
    same = {"JPEG": "JPEG", "PPM": "PPM", "PGM": "PPM"}
    assert {same.get(name.upper(), name.upper()) for name in named} == {
        registered[suffix] for suffix in SUFFIXES
    }


def test_page_numbers_equal_code() -> None:
    assert f"gets {100 * SHARE:g} % of" in TEXT
    assert f"at most {LARGEST_SIZE};" in TEXT
    assert Image.MAX_IMAGE_PIXELS
    assert f"about {Image.MAX_IMAGE_PIXELS // 10**6} million pixels" in TEXT
