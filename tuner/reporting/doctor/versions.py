"""Whether Python and the packages are those that tuner asks for."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, metadata, requires, version

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tuner.reporting.doctor.finding import Finding


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
        name, install = requirement.name, f'pip install "{requirement}"'
        installed = installed_version(name)
        finding = _version(name, installed, requirement.specifier, install)
        if finding.level != "ok" or name in ("torch", "ray"):
            yield finding


def installed_version(package: str) -> str:
    """The version of an installed package, or ""."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _version(name: str, installed: str, asked: SpecifierSet, advice: str) -> Finding:
    if installed and asked.contains(installed, prereleases=True):
        return Finding("versions", name, installed)
    found = f"{installed or 'not installed'}, must be {asked}"
    return Finding("versions", name, found, "broken", advice)
