"""TensorBoard as `tuner tensorboard` starts it: the HPARAMS tab follows the search.

TensorBoard reads a run's hyperparameters and status once, so a running trial would stay running.
Here they are read again whenever the trial's file changes.
"""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain, count
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any

from tensorboard import default, program
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.data.provider import TensorTimeSeries
from tensorboard.plugins.hparams.hparams_plugin import HParamsPlugin
from tensorboard.plugins.hparams.metadata import PLUGIN_NAME
from tensorboard.plugins.projector.projector_plugin import ProjectorPlugin

from tuner import process
from tuner.errors import UsageError
from tuner.experiment.files import check_folder
from tuner.experiment.folder import ExperimentFolder
from tuner.reporting.tensorboard import HPARAMS, logdir
from tuner.wording import joined

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
    folder with a link.
    """
    with _runs_of(experiments, find, every_s) as runs, suppress(KeyboardInterrupt):
        names = [experiment.name for experiment in experiments][:_MOST_NAMED]
        title = joined(names) if names else "tuner"
        plugins = [p for p in default.get_plugins() if p not in (HParamsPlugin, ProjectorPlugin)]
        tensorboard = program.TensorBoard(plugins=[*plugins, _HParams])
        tensorboard.configure(logdir=str(runs), host="127.0.0.1", port=port, window_title=title)
        return 2 if main(tensorboard) else 0
    return 0


@contextmanager
def _runs_of(
    experiments: Sequence[ExperimentFolder],
    find: Callable[[], Iterable[ExperimentFolder]] | None,
    every_s: float,
) -> Iterator[Path]:
    if find is None and len(experiments) == 1:
        check_folder(experiments[0].path, to_follow=True)
        with experiments[0].event_files_synced():
            yield logdir(experiments[0].path)
        return
    known: set[Path] = set()

    def add(experiment: ExperimentFolder) -> None:
        path = experiment.path.resolve()
        if path in known:
            return
        known.add(path)
        check_folder(path, to_follow=True)
        synced.enter_context(experiment.event_files_synced())
        names = chain([path.name], (f"{path.name}-{n}" for n in count(2)))
        links = (Path(folder, name) for name in names)
        next(link for link in links if not link.is_symlink()).symlink_to(logdir(path))

    def follow(over: Event) -> None:
        """Add what `find` returns until the end; log what cannot be shown."""
        while find is not None and not over.wait(every_s):
            try:
                for experiment in find():
                    add(experiment)
            except UsageError as error:
                _log.warning("%s", error)

    with TemporaryDirectory(prefix="tuner-tensorboard-") as folder, ExitStack() as synced:
        for experiment in experiments:
            add(experiment)
        with process.running(follow):
            yield Path(folder)


class _HParams(HParamsPlugin):  # type: ignore[misc]
    """The HPARAMS tab with a data provider that follows the search."""

    def __init__(self, context: Any) -> None:
        following = copy.copy(context)
        following.data_provider = FollowingProvider(context.data_provider, Path(context.logdir))
        super().__init__(following)


class FollowingProvider:
    """TensorBoard's data `provider`, with the current hyperparameters in the files of `runs`.

    For a file that cannot be read, TensorBoard's earlier content is used.
    """

    def __init__(self, provider: Any, runs: Path) -> None:
        self._provider = provider
        self._runs = runs
        self._contents: dict[str, tuple[int, dict[str, bytes]]] = {}  # run -> time of file, by tag

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)

    def list_tensors(
        self, ctx: Any, *, plugin_name: str, **chosen: Any
    ) -> Mapping[str, Mapping[str, TensorTimeSeries]]:
        """As `DataProvider.list_tensors` of TensorBoard."""
        tensors: Mapping[str, Mapping[str, TensorTimeSeries]]
        tensors = self._provider.list_tensors(ctx, plugin_name=plugin_name, **chosen)
        if plugin_name != PLUGIN_NAME:
            return tensors
        return {
            run: {tag: self._current(run, tag, series) for tag, series in by_tag.items()}
            for run, by_tag in tensors.items()
        }

    def _current(self, run: str, tag: str, series: TensorTimeSeries) -> TensorTimeSeries:
        """`series` with the content that the run's file has now."""
        path = self._runs / run / HPARAMS
        with suppress(OSError, KeyError):  # it has gone, or has no row
            changed = os.stat(path).st_mtime_ns
            if run not in self._contents or self._contents[run][0] != changed:
                content = EventAccumulator(str(path)).Reload().PluginTagToContent(PLUGIN_NAME)
                self._contents[run] = changed, content
            return TensorTimeSeries(
                max_step=series.max_step,
                max_wall_time=series.max_wall_time,
                plugin_content=self._contents[run][1][tag],
                description=series.description,
                display_name=series.display_name,
            )
        return series
