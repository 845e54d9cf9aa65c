"""docs/data.md is true: its commands run, and it names what there is."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import photos
import pytest
from click.testing import CliRunner
from PIL import Image

from tuner.classifier.catalog import DATASETS, SOURCES
from tuner.classifier.settings import ClassifierSettings
from tuner.classifier.sources._images import LARGEST_SIZE
from tuner.classifier.sources._splits import SHARE
from tuner.classifier.sources.folder import SUFFIXES
from tuner.cli import main as cli

TEXT = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")


@pytest.mark.docs
def test_every_command_works(
    ray_here: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TUNER_STORAGE", str(tmp_path / "results"))
    monkeypatch.setenv("TUNER_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    photos.write(tmp_path / "photos", each=40)
    for name, code in re.findall(r"^```\w+\n# (\S+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL):
        (tmp_path / name).write_text(code)
    (block,) = re.findall(r"^```console\n(.*?)^```$", TEXT, flags=re.MULTILINE | re.DOTALL)
    for line in block.splitlines():
        words = shlex.split(line.removeprefix("$ tuner "), comments=True)
        done = CliRunner().invoke(cli.cli, words, standalone_mode=False)
        assert not done.exception, f"{line}\n{done.output}"
        assert not done.return_value, f"{line}\n{done.output}"


def test_it_names_what_there_is() -> None:
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


def test_its_numbers_are_those_of_the_code() -> None:
    assert f"gets {100 * SHARE:g} % of" in TEXT
    assert f"at most {LARGEST_SIZE};" in TEXT
    assert Image.MAX_IMAGE_PIXELS
    assert f"about {Image.MAX_IMAGE_PIXELS // 10**6} million pixels" in TEXT
