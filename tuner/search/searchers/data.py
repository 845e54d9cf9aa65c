"""What a model is fitted to: the trials' configs as points, and their losses by epoch."""

# N trials with a loss, P trials without one yet, D columns of the encoding

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuner.search.searchers.curves import standings
from tuner.search.searchers.records import FAILED, RUNNING, Record, Records
from tuner.space.encoding import Array, Encoding


@dataclass(frozen=True, slots=True)
class Data:
    """N trials with reports, and those without; less is better.

    loss_N: how each stands, by values at equal epochs only. curves: the N losses at each epoch.
    live_N: whether it still runs. failed_ND: configs that failed. pending_PD: configs that run and
    have reported nothing.
    """

    u_ND: Array
    loss_N: Array
    curves: list[dict[int, float]]
    live_N: NDArray[np.bool_]
    failed_ND: Array
    pending_PD: Array

    @property
    def stops_early(self) -> bool:
        """Whether a trial is over that came less far than another."""
        ends_N = np.array([max(curve) for curve in self.curves])
        return bool((ends_N[~self.live_N] < ends_N.max(initial=0)).any())


def data_of(records: Records, encoding: Encoding, *, maximised: bool, max_t: int | None) -> Data:
    """What the records tell a model.

    max_t: epochs of a whole trial; None: the most that any has reported.
    """
    known = [record for record in records if record.status != FAILED and record.reports]
    sign = -1.0 if maximised else 1.0
    whole = max_t or max((max(record.reports) for record in records if record.reports), default=1)
    curves = [{t or whole: sign * v for t, v in record.reports.items()} for record in known]
    return Data(
        _points(known, encoding),
        standings(curves),
        curves,
        np.array([record.status == RUNNING for record in known], dtype=bool),
        _points([record for record in records if record.status == FAILED], encoding),
        _points([r for r in records if r.status == RUNNING and not r.reports], encoding),
    )


def _points(records: Sequence[Record], encoding: Encoding) -> Array:
    points = [encoding.encode(record.config) for record in records]
    return encoding.snap(np.array(points).reshape(len(points), len(encoding)))
