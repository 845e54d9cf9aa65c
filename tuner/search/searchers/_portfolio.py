"""A portfolio: configs to try first in a new search, since they have won in earlier ones.

Each earlier search is a task with a scale and a model of its own. The portfolio is greedy, as in
Feurer et al., "Auto-Sklearn 2.0" (2022), on ranks that the models predict.
"""

# N trials of a source, S sources, M candidates, D columns

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from tuner.search.curves import clip_losses
from tuner.search.searchers._gaussian import GaussianProcess
from tuner.search.searchers._process_inputs import (
    Features,
    limit_blas,
    normalize_losses,
    select_rows,
)
from tuner.spec.space.domains import Value
from tuner.spec.space.encoding import Array, Encoding
from tuner.spec.space.spaces import compute_config_key

# The trials of an earlier search, at least one: config, and what it is worth, as a loss
Source = Sequence[tuple[dict[str, Value], float | None]]


def order_leaders(
    sources: Iterable[Source],
    encoding: Encoding,
    *,
    offers: Callable[[dict[str, Value]], bool],
) -> list[dict[str, Value]]:
    """The best config of each source that `offers` allows, each once, in the order of `greedy`."""
    tasks: list[tuple[Array, Array]] = []
    leaders: dict[str, tuple[dict[str, Value], Array]] = {}
    for source in sources:
        configs = [config for config, _ in source]
        encoded = [encoding.encode(config) for config in configs]
        u_ND = encoding.snap(np.array(encoded))
        losses = np.array([loss for _, loss in source], dtype=float)
        loss_N = clip_losses(np.nan_to_num(losses, nan=np.inf))
        tasks.append((u_ND, loss_N))
        offered = np.flatnonzero([offers(config) for config in configs])
        if len(offered):
            best = int(offered[loss_N[offered].argmin()])
            leaders.setdefault(
                compute_config_key(configs[best]), (configs[best], u_ND[best])
            )
    configs = [config for config, _ in leaders.values()]
    if len(configs) < 2:
        return configs
    points = [u_D for _, u_D in leaders.values()]
    with limit_blas():
        ranks = [predict_ranks(encoding, *task, np.array(points)) for task in tasks]
    return [configs[m] for m in order_greedily(np.array(ranks))]


def predict_ranks(
    encoding: Encoding,
    u_ND: Array,
    loss_N: Array,
    u_MD: Array,
) -> Array:
    """The share of a source's N trials that are predicted to be better than each candidate."""
    features = Features(encoding)
    rows = select_rows(loss_N)
    x_NF = features(u_ND[rows])
    process = GaussianProcess(
        x_NF,
        normalize_losses(loss_N)[rows],
        features.groups_F,
    )
    mean_N, _ = process.predict(x_NF)
    mean_M, _ = process.predict(features(u_MD))
    return np.searchsorted(np.sort(mean_N), mean_M) / len(rows)


def order_greedily(rank_SM: Array) -> list[int]:
    """All candidates in order: each lowers the mean over sources of the best rank most.

    Of equals, that of the lower mean rank comes first.
    """
    order: list[int] = []
    best_S = np.ones(len(rank_SM))
    while len(order) < rank_SM.shape[1]:
        merit_M = np.minimum(best_S[:, None], rank_SM).mean(axis=0)
        ranked = np.lexsort((rank_SM.mean(axis=0), merit_M))
        chosen = next(int(m) for m in ranked if m not in order)
        order.append(chosen)
        best_S = np.minimum(best_S, rank_SM[:, chosen])
    return order
