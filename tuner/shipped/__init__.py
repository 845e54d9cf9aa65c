"""The experiments and search spaces that ship: `tuner.shipped.experiments.digits`.

In a checkout they stand in the repository's root, and a wheel has them in this folder (setup.py).
Under these names nothing beside the user can shadow them.
"""

from pathlib import Path

_FOLDER = Path(__file__).resolve().parent
if not (_FOLDER / "experiments").is_dir():
    __path__ = [str(_FOLDER.parents[1])]
