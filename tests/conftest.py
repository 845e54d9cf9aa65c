"""What all tests share.

The presence of this file puts tests/ on the import path: `from synthetic import Writer`.
Under `pytest -n 2 --dist loadfile` the tests of a file run in one process, for the sake of their
fixtures, and so do all tests that start Ray. Under `--dist loadscope` each process starts its Ray.
"""

import gc
import os
import signal
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import pytest
import stores
from hypothesis import settings
from snapshots import Snapshot
from synthetic import Writer, make_folder

INTEGRATION = Path(__file__).parent / "integration"
# Of make integration and make docs. Begun last, they would leave the other process idle
LONGEST = (
    "test_readme",
    "test_queue",
    "test_interruption",
    "test_faults",
    "test_control",
    "test_several_nodes",
    "test_store",
    "test_several_workers",
)

gc.disable()  # until the tests are collected: imports take a fifth longer with it

DEFAULTS = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}

# A loaded machine is no failure of the property. --hypothesis-profile thorough: more examples
settings.register_profile("quick", deadline=None, print_blob=True, max_examples=25)
settings.register_profile("thorough", deadline=None, print_blob=True, max_examples=500)
settings.load_profile("quick")


def pytest_addoption(parser):
    parser.addoption(
        "--rewrite-snapshots", action="store_true", help="rewrite tests/snapshots/"
    )


def pytest_configure(config):
    if config.option.markexpr != "gpu":  # the figures that tests expect are of a CPU
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    for variable in ("XDG_CACHE_HOME", "XDG_STATE_HOME"):  # no test fills the user's
        folder = TemporaryDirectory(prefix="tuner-tests-")
        os.environ[variable] = folder.name
        config.add_cleanup(folder.cleanup)
    # Whoever starts pytest in the background of a script has these ignored, and what it starts, too
    for number, usual in DEFAULTS.items():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)
    if "PYTEST_XDIST_WORKER" in os.environ:
        import scipy.linalg  # noqa: F401 - loads the BLAS of numpy and of scipy
        import torch
        from threadpoolctl import threadpool_limits

        # The workers share the cores; processes that tests start do not
        torch.set_num_threads(1)
        threadpool_limits(1, user_api="blas")


def pytest_collection_modifyitems(items):
    for item in items:
        if INTEGRATION in item.path.parents:
            item.add_marker(pytest.mark.integration)
    _skip_without_gpu([item for item in items if item.get_closest_marker("gpu")])
    if "PYTEST_XDIST_WORKER" in os.environ:  # what takes longest begins first
        items.sort(key=lambda item: item.path.stem not in LONGEST)
        items.sort(key=lambda item: INTEGRATION not in item.path.parents)


def _skip_without_gpu(items):
    """Skip them aloud on a machine without a CUDA device."""
    if items:
        import torch

        missing = not torch.cuda.is_available()
        for item in items:
            item.add_marker(
                pytest.mark.skipif(missing, reason="needs a CUDA device: none here")
            )


def pytest_collection_finish():
    gc.enable()


@pytest.fixture(autouse=True, scope="module")
def _freeze_heap():
    """Let a test that collects garbage pass over what is imported, else for 0.4 s each time.

    Of every module, as `pause_collector` unfreezes all.
    """
    gc.freeze()


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_make_scheduler(config, log):
    config.option.loadscopereorder = False  # it would begin with what has most tests
    if config.option.dist != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class OneRay(LoadFileScheduling):
        """By file, and all files of tests/integration in one process, with the one Ray there."""

        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            return "integration" if "tests/integration/" in file else file

    return OneRay(config, log)


LAST_LINES = 20  # of each log, in the report of a test that fails
_MOST_LOGS = 4


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Let a failing test show the last lines of the logs in its temporary folders."""
    report = yield
    if report.failed and call.when == "call":
        folders = [
            item.funcargs[name]
            for name in ("tmp_path", "here")
            if name in item.funcargs
        ]
        logs = {path for folder in folders for path in Path(folder).rglob("log*.txt")}
        newest = sorted(logs, key=lambda path: path.stat().st_mtime)[-_MOST_LOGS:]
        for path in newest:
            lines = path.read_text(errors="replace").splitlines()[-LAST_LINES:]
            report.sections.append((f"last lines of {path}", "\n".join(lines)))
    return report


@pytest.fixture
def snapshot(request):
    """Texts of the test that are compared with its snapshot; see snapshots.py."""
    return Snapshot(request)


@pytest.fixture
def writer(tmp_path):
    """Writes the experiment in tmp_path/digits, which has no trial yet."""
    return Writer(make_folder(tmp_path / "digits"))


@pytest.fixture
def data_home(tmp_path, monkeypatch):
    """The data sets of the user, who has none, are in tmp_path/data."""
    monkeypatch.setenv("TUNER_DATA", str(tmp_path / "data"))


@pytest.fixture
def import_path():
    """The import path, which is restored afterwards."""
    before = list(sys.path)
    yield
    sys.path[:] = before


@pytest.fixture
def install(tmp_path, monkeypatch):
    """A function that installs a package, as pip does: its module, and entry points by group."""
    from tuner.cli.main import COMMANDS
    from tuner.plugins import FIGURES, NOTIFIERS, TRACKERS

    site = tmp_path / "site"
    modules = []

    def forget():
        for plugins in (COMMANDS, FIGURES, NOTIFIERS, TRACKERS):
            vars(plugins).pop("entry_points", None)
        for module in modules:
            sys.modules.pop(module, None)

    def install(package, code, **groups):
        modules.append(package.replace("-", "_"))
        folder = site / f"{modules[-1]}-1.0.dist-info"
        folder.mkdir(parents=True)
        (site / f"{modules[-1]}.py").write_text(code)
        (folder / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n"
        )
        lines = [
            f"[tuner.{group}]\n{name} = {modules[-1]}:{value}\n"
            for group, (name, value) in groups.items()
        ]
        (folder / "entry_points.txt").write_text("\n".join(lines))
        monkeypatch.syspath_prepend(site)
        forget()
        return site

    yield install
    forget()


@pytest.fixture
def working_dir(tmp_path, monkeypatch, import_path):
    """A working directory whose storage, data and import path are the test's alone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TUNER_STORAGE", str(tmp_path / "results"))
    monkeypatch.setenv("TUNER_DATA", str(tmp_path / "data"))
    return tmp_path


@pytest.fixture
def uninstall():
    """A function that makes packages seem not to be installed, in this process."""
    before = dict(sys.modules)
    hidden = set()

    def uninstall(*packages):
        hidden.update(packages)
        sys.modules.update(dict.fromkeys(packages))

    yield uninstall
    for name in hidden:
        del sys.modules[name]
        sys.modules.update({name: before[name]} if name in before else {})


@pytest.fixture
def forget():
    """A function that forgets packages as if they were not imported, for the test alone."""
    before = {}
    forgotten = set()

    def imported():
        return [name for name in sys.modules if name.partition(".")[0] in forgotten]

    def forget(*packages):
        forgotten.update(packages)
        for name in imported():
            before[name] = sys.modules.pop(name)

    yield forget
    for name in imported():
        del sys.modules[name]
    sys.modules.update(before)


@pytest.fixture(scope="session")
def _s3_server():
    server = stores.serve()
    yield server
    server.stop()


@pytest.fixture
def s3(_s3_server, monkeypatch):
    """An empty place in an S3 of this machine, which this process and its children find."""
    for name, value in stores.environment(_s3_server).items():
        monkeypatch.setenv(name, value)
    stores.make_bucket()
    return f"{stores.BUCKET}/{uuid4().hex}"
