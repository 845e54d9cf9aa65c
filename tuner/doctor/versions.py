"""Whether Python and the packages are those that tuner asks for."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, metadata, requires, version

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tuner.doctor.finding import Finding


def check() -> Iterator[Finding]:
    """Python, tuner, torch and Ray, and whatever else of tuner's requirements is not met."""
    asked = SpecifierSet(metadata("tuner")["Requires-Python"])
    python = platform.python_version()
    yield _version("Python", python, asked, "install another Python")
    yield Finding("versions", "tuner", version("tuner"))
    for text in requires("tuner") or ():
        requirement = Requirement(text)
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            there = version(requirement.name)
        except PackageNotFoundError:
            there = ""
        told = _version(
            requirement.name, there, requirement.specifier, f'pip install "{requirement}"'
        )
        if told.level != "ok" or requirement.name in ("torch", "ray"):
            yield told


def _version(name: str, there: str, asked: SpecifierSet, advice: str) -> Finding:
    if there and asked.contains(there, prereleases=True):
        return Finding("versions", name, there)
    found = f"{there or 'not installed'}, must be {asked}"
    return Finding("versions", name, found, "broken", advice)
