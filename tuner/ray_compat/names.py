"""Names that Ray gives to things, and its settings, until Ray documents them.

They cannot fail where they are used: the test of each fails when Ray changes it.
"""

from __future__ import annotations

import functools
import logging
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from types import ModuleType
from typing import Any, ParamSpec

# Without it: a Ray that dies ends a search unexplained, as does too little memory
DAEMONS = ("gcs_server", "raylet")  # without one of them nothing goes on
# What the titles of a raylet's helpers begin with
AGENTS = ("ray::RuntimeEnv", "ray::Dashboard")
IDLE = "ray::IDLE"  # a worker without work
WORKER = "ray::"  # what the titles of all workers begin with, and of the agents

# Without it: some cluster is not joined, or not asked to grow, or its fault not named
HEAD = "node:__internal_head__"  # a resource that only the head of a cluster has
MONITOR = "--autoscaling-config="  # an argument of the autoscaler that `ray up` starts
# Set where a Ray job runs: its files are there already
IN_A_JOB = "RAY_JOB_CONFIG_JSON_ENV_VAR"
# A program that ends with 0 where the head that it is given answers it
PROBE = "import sys; from ray._raylet import GcsClient; GcsClient(sys.argv[1])"

# Without it: a job runs with the first `python` of the head's PATH, not with Ray's
# For a shell that a job starts: the Python of its grandparent, the raylet, as that starts workers
HEADS_PYTHON = (
    "tr '\\0' '\\n' 2>/dev/null "
    "< /proc/$(sed -n 's/^PPid:[^0-9]*//p' /proc/$PPID/status 2>/dev/null)/cmdline "
    "| sed -n 's/^--python_worker_command=\\([^ ]*\\) .*/\\1/p' | grep . || echo python"
)

# Without it: Ray tells of each step of sending a job, failed trials, slow starts, widgets
JOB_LOGGERS = (
    "ray.dashboard.modules.dashboard_sdk",
    "ray.dashboard.modules.job.sdk",
    "ray._private.runtime_env.packaging",
)
TUNE_LOGGER = "ray.tune.tune"  # of failed trials the summary tells, too
# On slow starts: to reuse actors, as is done
TRAINABLE_LOGGER = "ray.tune.trainable.trainable"
WIDGETS_LOGGER = "ray.widgets.util"  # nothing here uses ipywidgets

# Without it: Ray may write to stdout, take snapshots, listen on all addresses, end workers
# Until then a raylet whose GCS has died lets no thread of a driver run that joins it
GIVE_UP = "RAY_gcs_rpc_server_reconnect_timeout_s"
# Where off, Ray listens on loopback alone
CLUSTERS = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
SETTINGS = {  # what Ray reads when it is imported or joined, and hands to its workers
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AIR_NEW_OUTPUT": "0",  # its banner goes to stdout, which is for data
    "RAY_TQDM": "0",
    # Its future default; without it Ray warns
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",  # a trial's relative paths mean what the user means
    # Else no job is joined that has one of FOR_WORKERS set
    "RAY_OVERRIDE_JOB_RUNTIME_ENV": "1",
    # Trials yield to other programs no more than the command does
    "RAY_worker_niceness": "0",
    "RAY_memory_monitor_refresh_ms": "0",  # trial/memory_monitor ends whom it should
    # Else Tune starts a trial from its start
    "RAY_TRAIN_COUNT_PREEMPTION_AS_FAILURE": "1",
    "PL_DISABLE_FORK": "1",  # what Tune sets for its workers
    # The journal and our TensorBoard writer do it
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",  # a bad report fails its trial alone
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # the driver has its own
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",  # they are in the trial's log and the summary
    # The journal makes Ray's snapshots needless
    "TUNE_GLOBAL_CHECKPOINT_S": "1000000000",
    "TUNE_FORCE_TRIAL_CLEANUP_S": "10",
    "TUNE_WARN_INSUFFICENT_RESOURCE_THRESHOLD_S": "1000000000",  # Ray spells it so
}
FOR_WORKERS = ("PL_DISABLE_FORK", "RAY_CHDIR_TO_TRIAL_DIR")


def prepare_environment() -> None:
    """Set SETTINGS, unless the user has; to be called before the first import of ray."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)


@contextmanager
def silence_logger(name: str, level: int) -> Iterator[None]:
    """Within it, the logger of this name says nothing below `level`."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.setLevel(before)


def silence_widgets() -> None:
    """Silence Ray's request for ipywidgets, which nothing here uses; call it before Ray starts."""
    warnings.filterwarnings("ignore", message="IProgress not found")
    logging.getLogger(WIDGETS_LOGGER).setLevel(logging.WARNING)


P = ParamSpec("P")
Names = Mapping[ModuleType, Mapping[str, Any]]


def replace_names(
    names: Callable[P, Names],
) -> Callable[P, AbstractContextManager[None]]:
    """Turn a function that returns new values for names of Ray's modules into a context manager.

    Within the context the names have these values. It raises AttributeError, before any is set, for
    a name that a module lacks.
    """

    @contextmanager
    @functools.wraps(names)
    def replace_within(*args: P.args, **kwargs: P.kwargs) -> Iterator[None]:
        new = names(*args, **kwargs)
        before = {
            m: {name: getattr(m, name) for name in values} for m, values in new.items()
        }
        for module, values in new.items():
            vars(module).update(values)
        try:
            yield
        finally:
            for module, values in before.items():
                vars(module).update(values)

    return replace_within
