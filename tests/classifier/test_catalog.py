"""What ships is found by name, from the file that declares it."""

import subprocess
import sys
from pathlib import Path

import pytest

from tuner.classifier import datasets, models
from tuner.classifier.catalog import DATASETS, METRICS, MODELS, model_info
from tuner.settings_base import FaultsError
from tuner.spec.code import IMAGE_CLASSIFIER
from tuner.trial.loading import load_trainable


def test_importing_it_imports_nothing_heavy():
    code = "import sys, tuner.classifier.catalog; print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "numpy", "rich", "sklearn"} & set(out.stdout.split())


@pytest.mark.parametrize(("package", "found"), [(models, MODELS), (datasets, DATASETS)])
def test_each_file_without_an_underscore_is_one_that_ships(package, found):
    files = {path.stem for path in Path(package.__path__[0]).glob("[!_]*.py")}
    assert found.keys() - {"tiny"} == files
    assert len(files) >= 2


def test_the_classifier_reports_its_metrics():
    assert load_trainable(IMAGE_CLASSIFIER).metrics == METRICS


def test_a_model_is_known_by_its_reference():
    assert model_info("cnn") is MODELS["cnn"]
    assert not any(info.foreign for info in MODELS.values())
    assert model_info("a.b:Net").foreign
    with pytest.raises(FaultsError, match=r"unknown model 'cn' .*'cnn'.*; available: cnn, .*timm:"):
        model_info("cn")
