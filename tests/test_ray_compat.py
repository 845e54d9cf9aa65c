"""Each piece of undocumented Ray is as it was when it was tried; what is done where it is not.

`test_NAME` belongs to the piece NAME, and fails when Ray moves or changes what that relies on.
"""

import ast
import inspect
import logging
import mmap
import os
import re
import signal
import subprocess
import sys
import threading
import time
import tomllib
import types
from pathlib import Path
from types import SimpleNamespace

import pytest
import ray
from ray._private import node, parameter, ray_constants, services, utils, worker
from ray._private.state import GlobalState
from ray._raylet import (
    AuthenticationTokenLoader,
    Config,
    GcsClient,
    InnerGcsClient,
    persist_port,
    wait_for_persisted_port,
)
from ray.core.generated.gcs_pb2 import ActorTableData
from ray.exceptions import RayActorError
from ray.tune.execution import tune_controller
from ray.tune.experiment import Trial

from tuner import ray_compat
from tuner.errors import UsageError

RAY = Path(ray.__file__).parent
BINARIES = (RAY / "_raylet.so", RAY / "core" / "src" / "ray" / "raylet" / "raylet")


def is_in_binaries(text):
    for path in BINARIES:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            if data.find(text.encode()) >= 0:
                return True
    return False


def parameters(function):
    return list(inspect.signature(function).parameters)


# --- the register


def test_every_piece_has_a_test_of_its_own():
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert ray_compat.PIECES.keys() <= tested


def test_every_piece_says_what_it_does_why_and_until_when():
    tree = ast.parse(inspect.getsource(ray_compat))
    functions = {n.name: ast.get_docstring(n) for n in tree.body if isinstance(n, ast.FunctionDef)}
    for name, lost in ray_compat.PIECES.items():
        assert lost
        if name in functions:
            assert f"Tried with Ray {ray_compat.TRIED}. Why: " in functions[name], name
            assert "Until: " in functions[name], name


def test_the_bounds_of_the_package_are_what_was_tried():
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())[
        "project"
    ]
    extras = project["optional-dependencies"].values()
    wanted = [*project["dependencies"], *(each for extra in extras for each in extra)]
    bounds = {text.partition("]")[2] for text in wanted if text.startswith("ray[")}
    major, minor = map(int, ray_compat.TRIED.split("."))
    assert bounds == {f">={major}.{minor},<{major}.{minor + 1}"}


@pytest.fixture
def warnings(caplog, monkeypatch):
    """What is said, as if nothing had been said before."""
    monkeypatch.setattr(ray_compat, "_warned", set())
    return lambda: [record.getMessage() for record in caplog.records]


def test_a_piece_that_is_gone_is_left_out_with_one_warning(monkeypatch, warnings):
    monkeypatch.delattr(GlobalState, "get_draining_nodes")
    assert ray_compat.draining_nodes() == ray_compat.draining_nodes() == {}
    [said] = warnings()
    assert said.startswith("this Ray is not as draining_nodes needs it (")
    assert said.endswith("a node that is about to leave is used until it is gone")


def test_a_name_to_replace_that_is_gone_is_left_out_with_one_warning(monkeypatch, warnings):
    monkeypatch.delattr(worker, "print_to_stdstream")
    for _ in range(2):
        with ray_compat.no_prints():
            assert not hasattr(worker, "print_to_stdstream")
    [said] = warnings()
    assert said.endswith("Ray prints on stdout that a worker has died")


def test_what_is_raised_within_passes():
    with pytest.raises(KeyError), ray_compat.no_prints():
        raise KeyError


@pytest.mark.parametrize(("version", "tried"), [("2.60.0", True), ("2.6.0", False), ("3.0", False)])
def test_only_a_tried_ray_is_known(version, tried):
    assert ray_compat.is_tried(version) is tried


def test_another_ray_is_left_as_it_is_and_that_is_said(monkeypatch, warnings):
    monkeypatch.setattr(ray, "__version__", "3.0.0")
    before = tune_controller._ObjectCache, parameter.RayParams
    with ray_compat.keep_workers(here=True), ray_compat.fewer_services(1234, workers=4):
        assert (tune_controller._ObjectCache, parameter.RayParams) == before
    assert ray_compat.local_options("/x", []) == {}
    ray_compat.warn_if_untried()
    *off, said = warnings()
    assert [line.partition(" needs it (it is not 2.60): ")[0] for line in off] == [
        f"this Ray is not as {name}" for name in ("keep_workers", "fewer_services", "local_options")
    ]
    assert said.startswith("Ray 3.0.0 is installed, and tuner was tried with 2.60: ")


def test_of_the_tried_one_nothing_is_said(warnings):
    ray_compat.warn_if_untried()
    assert warnings() == []


def test_names_are_replaced_within_only():
    one, two = types.ModuleType("one"), types.ModuleType("two")
    one.a, one.b, two.a = 1, 2, 3
    with ray_compat.replaced({one: {"a": 10, "b": 20}, two: {"a": 30}}):
        assert (one.a, one.b, two.a) == (10, 20, 30)
    assert (one.a, one.b, two.a) == (1, 2, 3)
    with pytest.raises(ZeroDivisionError), ray_compat.replaced({one: {"a": 10}}):
        1 / 0  # noqa: B018
    assert (one.a, one.b, two.a) == (1, 2, 3)


def test_a_name_that_is_not_there_is_an_error_and_replaces_nothing():
    module = types.ModuleType("m")
    module.a = 1
    with pytest.raises(AttributeError), ray_compat.replaced({module: {"a": 2, "b": 3}}):
        pass
    assert vars(module)["a"] == 1


# --- names


def test_process_titles():
    programs = (services.GCS_SERVER_EXECUTABLE, services.RAYLET_EXECUTABLE)
    assert tuple(Path(program).name for program in programs) == ray_compat.DAEMONS
    titles = (
        ray_constants.AGENT_PROCESS_TYPE_RUNTIME_ENV_AGENT,
        ray_constants.AGENT_PROCESS_TYPE_DASHBOARD_AGENT,
    )
    assert all(map(str.startswith, titles, ray_compat.AGENTS))
    assert ray_constants.WORKER_PROCESS_TYPE_IDLE_WORKER == ray_compat.IDLE
    assert is_in_binaries(ray_compat.WORKER)
    assert ray_compat.IDLE.startswith(ray_compat.WORKER)


def test_cluster_names():
    from ray._common.constants import HEAD_NODE_RESOURCE_NAME
    from ray._common.usage.usage_constants import CLUSTER_METADATA_KEY
    from ray._private.runtime_env.constants import RAY_JOB_CONFIG_JSON_ENV_VAR

    assert HEAD_NODE_RESOURCE_NAME == ray_compat.HEAD
    assert f'"{ray_compat.MONITOR}"' in inspect.getsource(services.start_monitor)
    assert (CLUSTER_METADATA_KEY, ray_constants.KV_NAMESPACE_CLUSTER) == ray_compat.METADATA
    assert RAY_JOB_CONFIG_JSON_ENV_VAR == ray_compat.IN_A_JOB


def test_the_command_is_there_with_its_options():
    command = [*ray_compat.COMMAND, "start", "--help"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    options = ("address", "block", "node-ip-address", "num-cpus", "num-gpus", "object-store-memory")
    assert all(f"--{option}" in said for option in options)


def test_the_probe_finds_what_it_imports():
    code = f"{ray_compat.PROBE.rpartition(';')[0]}; GcsClient"
    subprocess.run([sys.executable, "-c", code], check=True)


def logs_as(name):
    """Whether Ray has a module of this name that logs under it."""
    path = RAY.joinpath(*name.split(".")[1:]).with_suffix(".py")
    return "logging.getLogger(__name__)" in path.read_text()


def test_loggers():
    assert all(map(logs_as, ray_compat.JOB_LOGGERS))
    assert logs_as(ray_compat.TUNE_LOGGER)
    assert logs_as(ray_compat.WIDGETS_LOGGER)


def test_settings():
    assert is_in_binaries(ray_compat.GIVE_UP.removeprefix("RAY_"))
    assert ray_compat.CLUSTERS in inspect.getsource(ray_constants)
    rooms = ("tune", "train", "data", "_common", "_private")
    sources = [path.read_text() for room in rooms for path in (RAY / room).rglob("*.py")]
    for name in ray_compat.SETTINGS:
        known = any(f'"{name}"' in source for source in sources)
        assert known or is_in_binaries(name.removeprefix("RAY_")), name


def test_a_users_own_settings_win(monkeypatch):
    for name in ray_compat.SETTINGS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RAY_TQDM", "1")
    ray_compat.prepare_environment()
    assert os.environ["RAY_TQDM"] == "1"
    assert os.environ["RAY_AIR_NEW_OUTPUT"] == "0"


def test_a_trial_whose_node_is_taken_back_is_ours_to_try_again_not_tunes(monkeypatch):
    for name in ray_compat.SETTINGS:
        monkeypatch.setenv(name, "0")  # so that it is as before afterwards
        monkeypatch.delenv(name)
    ray_compat.prepare_environment()
    trial = Trial("x", stub=True)
    trial._handle_ray_actor_error(RayActorError(preempted=True))
    assert not trial.should_recover()


def test_a_logger_is_quiet_within_only(caplog):
    logger = logging.getLogger("a logger of Ray's")
    with ray_compat.quiet(logger.name, logging.CRITICAL):
        logger.error("x")
    logger.error("y")
    assert [record.getMessage() for record in caplog.records] == ["y"]


# --- a Ray of our own


def test_reload_settings(monkeypatch):
    before = ray_constants.ENABLE_RAY_CLUSTER
    monkeypatch.setattr(ray_constants, "ENABLE_RAY_CLUSTER", before)
    monkeypatch.setenv(ray_compat.CLUSTERS, "0")
    monkeypatch.setenv("RAY_object_timeout_milliseconds", "17")
    ray_compat.reload_settings()
    assert ray_constants.ENABLE_RAY_CLUSTER is False
    assert Config.object_timeout_milliseconds() == 17
    monkeypatch.undo()
    ray_compat.reload_settings()
    assert ray_constants.ENABLE_RAY_CLUSTER is before
    assert Config.object_timeout_milliseconds() != 17
    assert callable(AuthenticationTokenLoader.instance().reset_cache)


def test_local_options():
    options = ray_compat.local_options("/x", ["json"])
    assert options == {"_temp_dir": "/x", "_system_config": {"preload_python_modules": ["json"]}}
    source = inspect.getsource(ray.init)
    assert all(f'kwargs.pop("{name}", None)' in source for name in options)
    assert is_in_binaries("preload_python_modules")
    assert ray_compat.local_options("/x", [])["_system_config"] is None


def test_reservable_memory():
    assert ray_compat.reservable_memory(5) == {"_memory": 5}
    assert 'kwargs.pop("_memory", None)' in inspect.getsource(ray.init)


RAYLET = [
    "raylet",
    "--session_dir={folder}",
    "--node_id=1c3a6d09",
    "--dashboard_agent_command=python agent.py --head",
    "--num_prestart_python_workers=4",
    "--runtime_env_agent_command=python main.py",
]


def started(monkeypatch, command, process_type, workers):
    """The command with which a process is started."""
    calls = []
    monkeypatch.setattr(services, "start_ray_process", lambda *args, **kw: calls.append((args, kw)))
    with ray_compat.fewer_services(1234, workers=workers):
        services.start_ray_process(command, process_type, fate_share=True)
    [((changed, same), options)] = calls
    assert (same, options) == (process_type, {"fate_share": True})
    return changed


def test_fewer_services():
    before = parameter.RayParams, services.start_api_server, services.start_ray_process
    with ray_compat.fewer_services(1234, workers=4):
        params = parameter.RayParams(num_cpus=1)
        assert (params.no_monitor, params.include_log_monitor) == (True, False)
        assert params.runtime_env_agent_port == 1234
        assert services.start_api_server("any") == ("", None)
    after = parameter.RayParams, services.start_api_server, services.start_ray_process
    assert after == before
    assert parameters(services.start_ray_process)[:2] == ["command", "process_type"]
    source = inspect.getsource(services.start_raylet)
    flags = ("--session_dir=", "--node_id=", ray_compat._AGENT, ray_compat._PRESTARTED)
    assert all(flag in source for flag in flags)
    assert all(
        f'"{name}"' in inspect.getsource(ray_constants) or name in inspect.getsource(node)
        for name in ray_compat._AGENT_PORTS
    )


def test_the_raylet_gets_an_agent_that_does_nothing_and_need_not_wait_for_it(monkeypatch, tmp_path):
    command = [part.format(folder=tmp_path) for part in RAYLET]
    changed = started(monkeypatch, command, "raylet", workers=4)
    assert changed[:3] + changed[4:] == command[:3] + command[4:]
    assert changed[3].startswith("--dashboard_agent_command=sleep ")
    for name in ray_compat._AGENT_PORTS:
        assert wait_for_persisted_port(str(tmp_path), "1c3a6d09", name, 1000, 100) == -1


@pytest.mark.parametrize("process_type", ["gcs_server", "raylet"])
def test_other_processes_are_started_as_they_are(monkeypatch, process_type):
    assert started(monkeypatch, ["x", "--node_id=1"], process_type, workers=4) == [
        "x",
        "--node_id=1",
    ]


@pytest.mark.parametrize(("workers", "count"), [(1, 1), (4, 4), (9, 4)])
def test_no_more_workers_start_ahead_than_are_asked_for_or_than_ray_would(
    monkeypatch, tmp_path, workers, count
):
    command = [part.format(folder=tmp_path) for part in RAYLET]
    changed = started(monkeypatch, command, "raylet", workers)
    assert changed[4] == f"--num_prestart_python_workers={count}"


def test_other_threads_run_while_a_port_is_waited_for(tmp_path):
    node_id, another = "1c" * 28, "2d" * 28

    def write():
        persist_port(str(tmp_path), node_id, "gcs_server_port", 4321)

    timer = threading.Timer(0.1, write)
    timer.start()
    before = node.wait_for_persisted_port
    with ray_compat.fewer_services(1234, workers=4):
        wait = node.wait_for_persisted_port
        assert wait(str(tmp_path), node_id, "gcs_server_port", timeout_ms=60_000) == 4321
        with pytest.raises(RuntimeError, match="gcs_server_port"):
            wait(str(tmp_path), another, "gcs_server_port", timeout_ms=1)
    assert node.wait_for_persisted_port is before


def test_no_signal_handlers():
    for module in (worker, node):
        called = re.findall(r"(\S*)set_sigterm_handler\(", inspect.getsource(module))
        assert set(called) == {"ray._private.utils."}
    with ray_compat.no_signal_handlers():
        utils.set_sigterm_handler(pytest.fail)
    assert signal.getsignal(signal.SIGTERM) is not pytest.fail


def test_no_prints(capsys):
    with ray_compat.no_prints():
        worker.print_to_stdstream({}, ignore_prefix=False)
    assert parameters(worker.print_to_stdstream) == ["data", "ignore_prefix"]
    assert inspect.getsource(worker).count("print_to_stdstream") == 3  # its definition, two calls


# --- Ray Tune


@pytest.fixture
def workers():
    with ray_compat.keep_workers(here=False):
        return tune_controller._ObjectCache(may_keep_one=True)


@pytest.mark.parametrize("here", [True, False])
def test_keep_workers(here):
    names = ("_ObjectCache", "_ActorClassCache")
    before = [getattr(tune_controller, name) for name in names]
    with ray_compat.keep_workers(here=here):
        assert issubclass(tune_controller._ObjectCache, before[0])
        assert tune_controller._ObjectCache is not before[0]
        assert (tune_controller._ActorClassCache is not before[1]) == here
    assert [getattr(tune_controller, name) for name in names] == before
    source = inspect.getsource(tune_controller)
    used = {"cache_object", "flush_cached_objects", "num_cached_objects", "has_cached_object"}
    assert used <= set(re.findall(r"_actor_cache\.(\w+)", source))
    assert "_ActorClassCache()" in source


def test_every_free_worker_is_kept_until_the_search_ends(workers):
    assert [workers.cache_object("cpu", number) for number in range(3)] == [True] * 3
    assert list(workers.flush_cached_objects()) == []
    assert workers.pop_cached_object("cpu") == 0
    assert list(workers.flush_cached_objects(force_all=True)) == [1, 2]
    assert not workers.has_cached_object("cpu")


def test_a_free_worker_is_not_offered_to_a_trial_whose_own_is_starting(workers):
    workers.cache_object("cpu", 1)
    assert workers.num_cached_objects == 0
    assert workers.has_cached_object("cpu")  # a trial without one finds it


def test_one_that_has_waited_long_is_offered_so_that_no_trial_waits_for_ever(workers, monkeypatch):
    workers.cache_object("cpu", 1)
    later = time.monotonic() + 60
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert workers.num_cached_objects == 1


def test_a_trainable_is_one_actor_class_that_asks_for_no_environment():
    class Trainable:
        pass

    with ray_compat.keep_workers(here=True):
        actors = tune_controller._ActorClassCache()
    actor = actors.get(Trainable)
    assert actor is actors.get(Trainable)
    assert actor._default_options.get("runtime_env") is None


def test_limit_cleanup(warnings):
    source = inspect.getsource(tune_controller)
    assert source.count("self._actor_force_cleanup_timeout") == 2  # set, and read later
    controller = SimpleNamespace(_actor_force_cleanup_timeout=10)
    ray_compat.limit_cleanup(SimpleNamespace(_tune_controller=controller), 5)
    assert controller._actor_force_cleanup_timeout == 5
    ray_compat.limit_cleanup(SimpleNamespace(), 5)
    assert len(warnings()) == 1


def test_forget_metrics():
    trial = Trial("x", stub=True)
    trial.update_last_result({"training_iteration": 1, "loss": 0.5})
    assert trial.metric_analysis["loss"]
    ray_compat.forget_metrics(trial)
    assert not trial.run_metadata.metric_analysis
    assert not trial.run_metadata.metric_n_steps


def test_mlflow_runs():
    from ray.air.integrations.mlflow import MLflowLoggerCallback

    source = inspect.getsource(MLflowLoggerCallback)
    assert "if trial not in self._trial_runs:" in source
    assert "run_id = self._trial_runs[trial]" in source
    assert ray_compat.mlflow_runs(SimpleNamespace(_trial_runs={"a": "b"})) == {"a": "b"}


def test_in_notebook(monkeypatch):
    from ray.tune import progress_reporter
    from ray.widgets import util

    assert ray_compat.in_notebook() is progress_reporter.IS_NOTEBOOK is False
    monkeypatch.setattr(util, "in_notebook", lambda: True)
    assert ray_compat.in_notebook() is True


# --- a cluster that is joined


def test_this_machines_cluster(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert ray_compat.this_machines_cluster() == "10.0.0.1:6379"
    source = inspect.getsource(services.canonicalize_bootstrap_address_or_die)
    assert "raise ConnectionError" in source
    assert "multiple" in source  # from which a message is told from the other


def test_cluster_metadata():
    assert "wrapper around InnerGcsClient" in GcsClient.__doc__
    assert parameters(InnerGcsClient.internal_kv_get) == ["self", "key", "namespace", "timeout"]


def test_has_node_here(monkeypatch):
    from ray.core.generated.gcs_pb2 import GcsNodeInfo

    assert services.find_node_ids() == set() or all(
        isinstance(node_id, str) for node_id in services.find_node_ids()
    )
    assert GcsNodeInfo.GcsNodeState.ALIVE == 0
    assert "timeout" in parameters(InnerGcsClient.get_all_node_info)
    monkeypatch.setattr(services, "find_node_ids", lambda: {"a"})
    for there, here in (({"a", "b"}, True), ({"c"}, False), (set(), False)):
        monkeypatch.setattr(ray_compat, "living_nodes", lambda head, limit_s, there=there: there)
        assert ray_compat.has_node_here("head:1", 1) is here


def test_draining_nodes(monkeypatch):
    monkeypatch.setattr(GlobalState, "get_draining_nodes", lambda self: {"a": 7})
    assert ray_compat.draining_nodes() == {"a": 7}


def test_free_resources(monkeypatch):
    free = {"a": {"CPU": 1.0}}
    monkeypatch.setattr(GlobalState, "available_resources_per_node", lambda self: free)
    assert ray_compat.free_resources() == free


def test_holding_actors(monkeypatch):
    actor = ActorTableData(
        class_name="Hog", pid=7, job_id=b"\1\0\0\0", required_resources={"CPU": 2}
    )
    named = ActorTableData(name="hog", class_name="Hog", pid=8, job_id=b"\1\0\0\0")
    asked = []

    def get_actor_table(job_id, state):
        asked.append((job_id, state))
        return [actor.SerializeToString(), named.SerializeToString()]

    accessor = SimpleNamespace(get_actor_table=get_actor_table)
    monkeypatch.setattr(GlobalState, "_connect_and_get_accessor", lambda self: accessor)
    told = [("Hog", 7, "01000000", {"CPU": 2.0}), ("hog", 8, "01000000", {})]
    assert ray_compat.holding_actors() == told
    assert asked == [(None, "ALIVE")]
    assert "accessor.get_actor_table(job_id, actor_state_name)" in inspect.getsource(GlobalState)


def test_the_id_of_a_placement_group_ends_with_its_job():
    from ray import JobID
    from ray._raylet import PlacementGroupID

    job = JobID.from_int(3)
    assert ray_compat.job_of(PlacementGroupID.of(job).hex()) == job.hex()


def test_limit_ahead():
    options = ray_compat.limit_ahead(2)

    @ray.remote(num_cpus=0)
    def task():
        yield 1

    task.options(num_returns="streaming", **options)  # Ray refuses an option that it does not know
    assert list(options.values()) == [2]


def test_visit_sent_files(tmp_path):
    (tmp_path / "results").mkdir()
    for name in ("mine.py", "ignored.py", "results/x"):
        (tmp_path / name).touch()
    (tmp_path / ".gitignore").write_text("ignored.py\n")

    def visited(gitignore):
        paths = []
        ray_compat.visit_sent_files(tmp_path, ["/results/"], paths.append, gitignore=gitignore)
        return {path.name for path in paths if path.is_file()} - {".gitignore"}

    assert visited(True) == {"mine.py"}
    assert visited(False) == {"mine.py", "ignored.py"}

    def refuse(path):
        raise UsageError("too large")

    with pytest.raises(UsageError):
        ray_compat.visit_sent_files(tmp_path, [], refuse, gitignore=True)
