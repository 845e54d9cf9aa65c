"""Versions that are missing, old, or newer than what was tried."""

from importlib.metadata import PackageNotFoundError, requires

import pytest

from tuner.reporting.doctor import versions


@pytest.fixture
def installed(monkeypatch):
    """What of which version is installed; of the rest, one that is new enough."""

    def put(**packages):
        def version(name):
            if packages.get(name, "99") is None:
                raise PackageNotFoundError
            return packages.get(name, "99")

        monkeypatch.setattr(versions, "version", version)
        return {finding.name: finding for finding in versions.check()}

    return put


def test_a_package_that_is_missing_or_of_another_version_breaks(installed):
    found = installed(click=None, ray="1.0.0", torch="2.13.0+cu130")
    [wanted] = [text for text in requires("tuner") if text.startswith("ray[tune]")]
    ray = found["ray"]
    assert (ray.level, ray.found) == (
        "broken",
        f"1.0.0, must be {wanted.removeprefix('ray[tune]')}",
    )
    assert ray.advice == f'pip install "{wanted}"'
    assert found["click"].found.startswith("not installed")
    assert found["torch"].level == "ok"


def test_check_newer_ray_is_refused(installed):
    found = installed(ray="2.61.0")
    assert found["ray"].level == "broken"
    assert found["ray"].advice.startswith('pip install "ray[tune]')
