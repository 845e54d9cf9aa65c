"""The package that a page of the documentation shows, as pip would install it."""

import tomllib


def install_shown(page, install):
    """Install it by the fixture `install`; returns the folder that holds it."""
    project = tomllib.loads(page.files["pyproject.toml"])["project"]
    assert project["version"] == "1.0"
    groups = {}
    for group, values in project["entry-points"].items():
        [(name, path)] = values.items()
        groups[group.removeprefix("tuner.")] = (name, path.removeprefix("tuner_lab:"))
    return install(project["name"], page.files["tuner_lab.py"], **groups)
