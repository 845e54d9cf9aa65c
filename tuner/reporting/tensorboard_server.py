"""TensorBoard as `tuner tensorboard` starts it: the HPARAMS tab follows the search.

TensorBoard reads a run's hyperparameters and status once and keeps them as long as it runs, so a
trial once seen running would stay so. Here they are read anew whenever the trial's file changes.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tensorboard import default, program
from tensorboard.data.provider import TensorTimeSeries
from tensorboard.plugins import base_plugin
from tensorboard.plugins.hparams.hparams_plugin import HParamsPlugin
from tensorboard.plugins.projector.projector_plugin import ProjectorPlugin

from tuner.record.files import check_folder, read_plain
from tuner.reporting import event_file
from tuner.reporting.hparams import PLUGIN
from tuner.reporting.tensorboard import HPARAMS, logdir


def serve(folder: Path, *, port: int = 6006) -> int:
    """Show the experiment in `folder` to this machine's browsers until a signal comes.

    Returns the exit code, 2 where the port is taken. TensorBoard prints its address on stderr.
    It follows links, and its projector opens whatever file a file of the folder names. So there is
    no projector, and UsageError is raised where the folder holds more than plain files and folders.
    """
    check_folder(folder, to_follow=True)
    plugins = [p for p in default.get_plugins() if p not in (HParamsPlugin, ProjectorPlugin)]
    tensorboard = program.TensorBoard(plugins=[*plugins, _HParamsLoader(logdir(folder))])
    tensorboard.configure(
        logdir=str(logdir(folder)),
        host="127.0.0.1",
        port=port,
        window_title=folder.resolve().name,
    )
    try:
        return 2 if tensorboard.main() else 0
    except KeyboardInterrupt:
        return 0  # how one leaves TensorBoard


class _HParamsLoader(base_plugin.TBLoader):  # type: ignore[misc]
    """Loads the HPARAMS tab with a data provider that follows the search."""

    def __init__(self, runs: Path) -> None:
        self._runs = runs

    def load(self, context: Any) -> HParamsPlugin:
        following = copy.copy(context)
        following.data_provider = FollowingProvider(context.data_provider, self._runs)
        return HParamsPlugin(following)


class FollowingProvider:
    """TensorBoard's data `provider`, with the hyperparameters as the files of `runs` have them now.

    A file that cannot be read leaves what TensorBoard read before.
    """

    def __init__(self, provider: Any, runs: Path) -> None:
        self._provider = provider
        self._runs = runs
        self._contents: dict[str, tuple[int, dict[str, bytes]]] = {}  # run -> time of file, by tag

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)

    def list_tensors(
        self, ctx: Any, *, experiment_id: str, plugin_name: str, run_tag_filter: Any = None
    ) -> Mapping[str, Mapping[str, TensorTimeSeries]]:
        """As `DataProvider.list_tensors` of TensorBoard."""
        tensors: Mapping[str, Mapping[str, TensorTimeSeries]] = self._provider.list_tensors(
            ctx,
            experiment_id=experiment_id,
            plugin_name=plugin_name,
            run_tag_filter=run_tag_filter,
        )
        if plugin_name != PLUGIN:
            return tensors
        return {
            run: {tag: _with(series, self._now(run).get(tag)) for tag, series in by_tag.items()}
            for run, by_tag in tensors.items()
        }

    def _now(self, run: str) -> dict[str, bytes]:
        path = self._runs / run / HPARAMS
        try:
            changed = os.stat(path).st_mtime_ns
            if run not in self._contents or self._contents[run][0] != changed:
                content = event_file.plugin_data(read_plain(path), PLUGIN)
                self._contents[run] = changed, content
        except (OSError, ValueError):
            return {}
        return self._contents[run][1]


def _with(series: TensorTimeSeries, content: bytes | None) -> TensorTimeSeries:
    if content is None:
        return series
    return TensorTimeSeries(
        max_step=series.max_step,
        max_wall_time=series.max_wall_time,
        plugin_content=content,
        description=series.description,
        display_name=series.display_name,
    )
