"""The packages of the wheel, which pyproject.toml cannot say: those found, and two that are moved.

`experiments` and `search_spaces` stand in the repository's root. They are installed below `tuner`,
the one top-level name (tuner/shipped.py finds them in both places).
"""

from setuptools import find_namespace_packages, setup

moved = {
    f"tuner.shipped.{folder}": folder for folder in ("experiments", "search_spaces")
}

setup(
    packages=[*find_namespace_packages(include=["tuner", "tuner.*"]), *moved],
    package_dir=moved,
)
