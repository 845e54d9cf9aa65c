"""What installed packages add: how it is found, and what is said of packages that are broken."""

import sys

import pytest
from fresh import ran

from tuner.errors import UsageError
from tuner.plugins import NOTIFIERS, TRACKERS, Plugins

GOOD = "class Lines:\n    def __init__(self, spec): ..."


def test_names_are_listed_without_an_import(install):
    install(
        "tuner-lab", GOOD, trackers=("lines", "Lines"), notifiers=("pager", "Lines")
    )
    assert TRACKERS.list_names() == ["lines", "mlflow", "wandb"]
    assert NOTIFIERS.list_names() == ["http", "https", "pager"]
    assert TRACKERS.describe("lines") == "lines of tuner-lab 1.0"
    assert TRACKERS.describe("wandb") == "wandb"
    assert "tuner_lab" not in sys.modules
    assert TRACKERS.load("lines").__module__ == "tuner_lab"


def test_built_in_names_are_loaded_from_their_paths():
    for plugins in (TRACKERS, NOTIFIERS):
        assert all(callable(plugins.load(name)) for name in plugins.built_in)


def test_unknown_name_lists_those_of_packages(install, snapshot):
    install("tuner-lab", GOOD, trackers=("lines", "Lines"))
    with snapshot.raises(UsageError):
        TRACKERS.load("line")


@pytest.mark.parametrize(
    "code",
    [
        "import a_package_that_nobody_has",
        "raise RuntimeError('no licence')",
        "",
    ],
)
def test_broken_package_is_named(install, snapshot, code):
    install("tuner-lab", code, trackers=("lines", "Lines"))
    with snapshot.raises(UsageError):
        TRACKERS.load("lines")


def test_name_of_two_packages_is_refused(install, snapshot):
    install("tuner-lab", GOOD, trackers=("lines", "Lines"))
    install("other", GOOD, trackers=("lines", "Lines"))
    with snapshot.raises(UsageError):
        TRACKERS.load("lines")
    assert "tuner_lab" not in sys.modules


def test_name_that_ships_stays_with_one_warning(install, caplog):
    install("tuner-lab", GOOD, trackers=("wandb", "Lines"))
    for _ in range(2):
        assert TRACKERS.load("wandb").__module__ == "tuner.reporting.trackers"
        assert TRACKERS.list_names() == ["mlflow", "wandb"]
    warning = "wandb of tuner-lab 1.0 is ignored: tuner has a tracker of that name"
    assert caplog.messages == [warning]


def test_package_of_two_folders_counts_once(install, monkeypatch, tmp_path):
    site = install("tuner-lab", GOOD, trackers=("lines", "Lines"))
    site.rename(tmp_path / "user_site")
    monkeypatch.syspath_prepend(tmp_path / "user_site")
    install("tuner-lab", GOOD, trackers=("lines", "Lines"))
    assert TRACKERS.load("lines").__module__ == "tuner_lab"


def test_import_path_may_hold_what_is_no_folder(install, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "folder/x.dist-info/entry_points.txt").mkdir(parents=True)
    install("tuner-lab", GOOD, figures=("map", "Lines"))
    for name in ("file", "missing", "folder"):
        monkeypatch.syspath_prepend(tmp_path / name)
    assert Plugins("figure", {}).list_names() == ["map"]


def test_no_package_costs_no_import():
    loaded = ran(
        "from tuner.plugins import FIGURES; assert not FIGURES.list_names()"
    ).modules
    assert "importlib.metadata" not in loaded
