"""Models that ship are found by name, from the file that declares them."""

from pathlib import Path

from tuner.vision import models
from tuner.vision.model_catalog import MODELS


def test_model_catalog_has_each_file_without_underscore():
    files = {path.stem for path in Path(models.__path__[0]).glob("[!_]*.py")}
    assert {
        info.build.__module__.rpartition(".")[2] for info in MODELS.values()
    } == files
    assert len(files) >= 2
