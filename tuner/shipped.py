"""The experiments and search spaces that ship: `tuner.shipped.experiments.digits`.

In a checkout they stand in the repository's root, and a wheel has them in the folder `shipped`
beside this file (setup.py). Under these names nothing in the user's directory can shadow them.
"""

from pathlib import Path

_FOLDER = Path(__file__).resolve().parent / "shipped"
__path__ = [str(_FOLDER if (_FOLDER / "experiments").is_dir() else _FOLDER.parents[1])]
