"""What ships is found by name, and can be imported."""

import subprocess
import sys

from tuner.classifier.catalog import DATASETS, METRICS, MODELS, load_builder
from tuner.spec.experiment import IMAGE_CLASSIFIER


def test_importing_it_does_not_import_torch():
    code = "import sys, tuner.classifier.catalog; print('torch' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"


def test_every_registered_path_can_be_imported():
    infos = [*MODELS.values(), *(info for name, info in DATASETS.items() if name != "tiny")]
    assert all(callable(load_builder(info.builder)) for info in infos)
    assert load_builder(IMAGE_CLASSIFIER).metrics == METRICS
