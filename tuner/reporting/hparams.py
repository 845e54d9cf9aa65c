"""TensorBoard's HPARAMS tab of a search: its columns, and a row for each trial.

TensorBoard takes the columns from the first run that it reads, so they come from the search space
and are the same in every run. It prints every number with five digits (64 as 64.000), so a few
whole numbers are written as text; wider ranges stay numbers, which TensorBoard filters by bounds.

TensorBoard's `summary_v2` cannot write which columns differ, or how a trial ended.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tensorboard.plugins.hparams.api_pb2 import Experiment, HParamInfo
from tensorboard.plugins.hparams.metadata import (
    EXPERIMENT_TAG,
    PLUGIN_DATA_VERSION,
    SESSION_END_INFO_TAG,
    SESSION_START_INFO_TAG,
)
from tensorboard.plugins.hparams.plugin_data_pb2 import (
    HParamsPluginData,
    SessionEndInfo,
    SessionStartInfo,
)

from tuner.experiment.events import COMPLETED, FAILED, INTERRUPTED, RUNNING, STOPPED
from tuner.spec.plain_values import flat
from tuner.spec.space.domains import Choice, Domain, Numeric
from tuner.spec.space.grid import grid_values
from tuner.spec.space.spaces import walk
from tuner.wording import printable

PLUGIN = "hparams"

# In TensorBoard's Status unknown is 0, success 1, failure 2, running 3
_SESSION = {RUNNING: 3, COMPLETED: 1, STOPPED: 1, FAILED: 2, INTERRUPTED: 0}
_MOST_CHECKBOXES = 9  # with more values TensorBoard shows a regular expression instead
_SHOWN_AT_FIRST = 5  # columns; those that differ come first


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a hyperparameter, named by its dotted path.

    kind: "text", "bool" or "number". values: the values as shown, or None for too many. bounds:
    least and greatest number, if known. varies: whether trials may differ in it.
    """

    name: str
    kind: str
    values: tuple[str | bool | float, ...] | None = None
    bounds: tuple[float, float] | None = None
    varies: bool = True

    def cell(self, value: Any) -> str | bool | float:
        """`value` as this column shows it."""
        if self.kind == "bool":
            return bool(value)
        if self.kind == "number":
            return float(value)
        width = max((len(v) for v in self.values or () if isinstance(v, str)), default=0)
        return _text(value, width if _is_whole(value) else 0)


def columns_of(space: Mapping[str, Any]) -> tuple[Column, ...]:
    """The columns of a search space and its branches, in declared order."""
    domains: dict[str, list[Any]] = {}
    for position, value in walk(space):
        if isinstance(value, Choice):
            options = tuple(v for v in value.values if not isinstance(v, Mapping))
            if not options:  # branches alone
                continue
            value = Choice(options)
        domains.setdefault(position.path, []).append(value)
    return tuple(_column(path, of_path) for path, of_path in domains.items())


def row_of(config: Mapping[str, Any], columns: Iterable[Column]) -> dict[str, str | bool | float]:
    """The cells of `config` by column, without columns of other branches.

    A column of numbers omits other values, which a foreign journal may have.
    """
    values = flat(config, ".")
    return {
        column.name: column.cell(values[column.name])
        for column in columns
        if column.name in values
        and (column.kind != "number" or isinstance(values[column.name], int | float))
    }


class Summaries:
    """The plugin's content of each run: the columns, and the trial's row.

    metrics: tags of scalars that become columns with a trial's last value.
    """

    def __init__(self, name: str, columns: tuple[Column, ...], metrics: Iterable[str]) -> None:
        self._columns = columns
        self._status = "trial_status" if any(c.name == "status" for c in columns) else "status"
        self._experiment = _content(
            experiment=Experiment(
                name=name,
                hparam_infos=[*map(_info, self._shown_columns())],
                metric_infos=[{"name": {"tag": tag}} for tag in metrics],
            )
        )

    def of_trial(
        self, config: Mapping[str, Any], status: str, *, started: float, ended: float | None
    ) -> dict[str, bytes]:
        """The content of a trial's run; times in seconds since the epoch."""
        start = SessionStartInfo(start_time_secs=started)
        for name, value in {self._status: status, **row_of(config, self._columns)}.items():
            field = {bool: "bool_value", float: "number_value", str: "string_value"}[type(value)]
            setattr(start.hparams[name], field, value)
        end = SessionEndInfo(status=_SESSION[status], end_time_secs=ended or 0)
        return {
            EXPERIMENT_TAG: self._experiment,
            SESSION_START_INFO_TAG: _content(session_start_info=start),
            SESSION_END_INFO_TAG: _content(session_end_info=end),
        }

    def _shown_columns(self) -> Iterator[Column]:
        """The status and all columns; as many vary as TensorBoard shows at first."""
        yield Column(self._status, "text", tuple(_SESSION))
        varying = [column for column in self._columns if column.varies][: _SHOWN_AT_FIRST - 1]
        for column in self._columns:
            yield replace(column, varies=column in varying)


def _info(column: Column) -> HParamInfo:
    kinds = {"text": "STRING", "bool": "BOOL", "number": "FLOAT64"}
    kind = f"DATA_TYPE_{kinds[column.kind]}"
    info = HParamInfo(name=column.name, type=kind, differs=column.varies)
    if column.values is not None:
        info.domain_discrete.extend(column.values)
    elif column.bounds is not None:
        info.domain_interval.min_value, info.domain_interval.max_value = column.bounds
    return info


def _content(**data: Any) -> bytes:
    content = HParamsPluginData(version=PLUGIN_DATA_VERSION, **data)
    serialized: bytes = content.SerializeToString()
    return serialized


def _column(name: str, domains: list[Any]) -> Column:
    """The column of all `domains`, or constants, of one name."""
    listed = [_listed(domain) for domain in domains]
    values = [value for some in listed for value in some or ()]
    texts = {_text(value) for value in values}
    is_few = None not in listed and len(texts) <= _MOST_CHECKBOXES
    varies = None in listed or len(texts) > 1
    are_whole = all(map(_is_whole, values))
    if is_few and all(isinstance(value, bool) for value in values):
        return Column(name, "bool", tuple(sorted(set(values))), varies=varies)
    if all(_is_whole(v) or isinstance(v, float) for v in values) and not (is_few and are_whole):
        numbers = sorted({float(value) for value in values})
        if is_few:
            return Column(name, "number", tuple(numbers), varies=varies)
        ranges = [d for d, some in zip(domains, listed, strict=True) if some is None]
        return Column(name, "number", bounds=_bounds(numbers, ranges))
    width = max(map(len, texts)) if are_whole else 0  # so that whole numbers sort as such
    shown = tuple(dict.fromkeys(_text(value, width) for value in values))
    return Column(name, "text", shown if is_few else None, varies=varies)


def _listed(domain: Any) -> tuple[Any, ...] | None:
    """The values of a choice, a constant or a short range; None for any other domain."""
    if not isinstance(domain, Domain):
        return (domain,)
    if isinstance(domain, Choice):
        return domain.values
    short = domain.size is not None and domain.size <= _MOST_CHECKBOXES
    return tuple(grid_values(domain, _MOST_CHECKBOXES)) if short else None


def _bounds(numbers: list[float], ranges: list[Domain]) -> tuple[float, float] | None:
    """Least and greatest of numbers and ranges; None for a normal distribution."""
    ends = [end for d in ranges if isinstance(d, Numeric) for end in (d.first, d.last)]
    unbounded = len(ends) < 2 * len(ranges)
    return None if unbounded else (min(numbers + ends), max(numbers + ends))


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _text(value: Any, width: int = 0) -> str:
    """The value as text, padded on the left to `width`."""
    text = value if isinstance(value, str) else repr(value)
    if isinstance(value, list | tuple):
        text = json.dumps(value)
    return printable(text).rjust(width)
