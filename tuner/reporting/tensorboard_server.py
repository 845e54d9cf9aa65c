"""TensorBoard as `tuner tensorboard` starts it."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain, count
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event

from tensorboard import default, program
from tensorboard.plugins.projector.projector_plugin import ProjectorPlugin

from tuner.errors import UsageError
from tuner.experiment.folder import ExperimentFolder
from tuner.reporting.tensorboard import find_logdir
from tuner.threads import run_in_thread
from tuner.wording import join_names

_log = logging.getLogger(__name__)
_NEW_EVERY_S = 10.0  # between two looks for new experiments
_MOST_NAMED = 3  # in the window's title


def serve(
    experiments: Sequence[ExperimentFolder],
    *,
    port: int = 6006,
    find: Callable[[], Iterable[ExperimentFolder]] | None = None,
    every_s: float = _NEW_EVERY_S,
    main: Callable[[program.TensorBoard], int | None] = program.TensorBoard.main,
) -> int:
    """Show experiments to this machine's browsers until a signal comes.

    A run is a TRIAL_ID; of several experiments it is NAME/TRIAL_ID. find: finds new experiments,
    each `every_s`. main: runs TensorBoard. Returns the exit code, 2 if the port is taken.
    TensorBoard prints its address on stderr. It follows links, and its projector opens any file
    that a file of the folder names. So there is no projector, and UsageError is raised for a
    link that it would follow.
    """
    with _collect_runs(experiments, find, every_s) as runs, suppress(KeyboardInterrupt):
        names = [experiment.name for experiment in experiments][:_MOST_NAMED]
        title = join_names(names) if names else "tuner"
        plugins = [
            plugin for plugin in default.get_plugins() if plugin is not ProjectorPlugin
        ]
        tensorboard = program.TensorBoard(plugins=plugins)
        tensorboard.configure(
            logdir=str(runs), host="127.0.0.1", port=port, window_title=title
        )
        return 2 if main(tensorboard) else 0
    return 0


@contextmanager
def _collect_runs(
    experiments: Sequence[ExperimentFolder],
    find: Callable[[], Iterable[ExperimentFolder]] | None,
    every_s: float,
) -> Iterator[Path]:
    if find is None and len(experiments) == 1:
        _check_runs(find_logdir(experiments[0].path))
        with experiments[0].sync_event_files():
            yield find_logdir(experiments[0].path)
        return
    known: set[Path] = set()

    def add(experiment: ExperimentFolder) -> None:
        path = experiment.path.resolve()
        if path in known:
            return
        known.add(path)
        _check_runs(find_logdir(path))
        synced.enter_context(experiment.sync_event_files())
        names = chain([path.name], (f"{path.name}-{n}" for n in count(2)))
        links = (Path(folder, name) for name in names)
        next(link for link in links if not link.is_symlink()).symlink_to(
            find_logdir(path)
        )

    def follow(over: Event) -> None:
        """Add what `find` returns until the end; log what cannot be shown."""
        while find is not None and not over.wait(every_s):
            try:
                for experiment in find():
                    add(experiment)
            except UsageError as error:
                _log.warning("%s", error)

    with (
        TemporaryDirectory(prefix="tuner-tensorboard-") as folder,
        ExitStack() as synced,
    ):
        for experiment in experiments:
            add(experiment)
        with run_in_thread(follow):
            yield Path(folder)


def _check_runs(runs: Path) -> None:
    """Raise UsageError for what TensorBoard would follow or wait for: it opens event files only."""

    def check(path: Path) -> None:
        is_read = "tfevents" in path.name
        if path.is_symlink() and (is_read or path.is_dir()):
            raise UsageError(
                f"{path} is a symbolic link, which TensorBoard would follow: remove it"
            )
        if is_read and path.exists() and not (path.is_file() or path.is_dir()):
            raise UsageError(
                f"{path} is no plain file, and TensorBoard would read it: remove it"
            )

    check(runs)
    for root, folders, names in os.walk(runs):
        for name in (*folders, *names):
            check(Path(root, name))
