"""TensorBoard as `tuner tensorboard` starts it: the HPARAMS tab follows the search.

Of a run's hyperparameters and status TensorBoard keeps what it read first, for as long as it
runs, so a trial once seen running would stay so. Here they are read anew from the trial's file.
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

from tuner.record.plain_files import read_plain
from tuner.reporting import event_file
from tuner.reporting.hparams import PLUGIN
from tuner.reporting.tensorboard import HPARAMS, logdir


def serve(folder: Path, *, port: int = 6006) -> int:
    """Show the experiment in `folder` to this machine's browsers until a signal comes.

    Returns the exit code, 2 where the port is taken; TensorBoard tells its address on stderr.
    """
    plugins = [p for p in default.get_plugins() if p is not HParamsPlugin]
    board = program.TensorBoard(plugins=[*plugins, _Following(logdir(folder))])
    board.configure(
        logdir=str(logdir(folder)),
        host="127.0.0.1",
        port=port,
        window_title=folder.resolve().name,
    )
    try:
        return 2 if board.main() else 0
    except KeyboardInterrupt:
        return 0  # how one leaves TensorBoard


class _Following(base_plugin.TBLoader):  # type: ignore[misc]
    """Loads the HPARAMS tab with a data provider that follows the search."""

    def __init__(self, runs: Path) -> None:
        self._runs = runs

    def load(self, context: Any) -> HParamsPlugin:
        following = copy.copy(context)
        following.data_provider = FollowingProvider(context.data_provider, self._runs)
        return HParamsPlugin(following)


class FollowingProvider:
    """TensorBoard's data `provider`, whose hyperparameters are those in the files of `runs` now."""

    def __init__(self, provider: Any, runs: Path) -> None:
        self._provider = provider
        self._runs = runs
        self._read: dict[str, tuple[int, dict[str, bytes]]] = {}  # run -> time of its file, content

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)

    def list_tensors(
        self, ctx: Any, *, experiment_id: str, plugin_name: str, run_tag_filter: Any = None
    ) -> Mapping[str, Mapping[str, TensorTimeSeries]]:
        """As `DataProvider.list_tensors` of TensorBoard."""
        found: Mapping[str, Mapping[str, TensorTimeSeries]] = self._provider.list_tensors(
            ctx,
            experiment_id=experiment_id,
            plugin_name=plugin_name,
            run_tag_filter=run_tag_filter,
        )
        if plugin_name != PLUGIN:
            return found
        return {
            run: {tag: _with(series, self._now(run).get(tag)) for tag, series in tags.items()}
            for run, tags in found.items()
        }

    def _now(self, run: str) -> dict[str, bytes]:
        path = self._runs / run / HPARAMS
        try:
            changed = os.stat(path).st_mtime_ns
            if run not in self._read or self._read[run][0] != changed:
                content = event_file.plugin_data(read_plain(path), PLUGIN)
                self._read[run] = changed, content
        except (OSError, ValueError):
            return {}  # what TensorBoard has read before stays
        return self._read[run][1]


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
