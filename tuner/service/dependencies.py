"""What several routers take from a request: the experiment it names, and the rows it chooses."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Annotated, Any, NamedTuple

from fastapi import Depends, Query, Request

from tuner.experiment.results.trial_rows import select_trial_rows
from tuner.service.watch import Experiments, Followed

BROWSER = "browser"  # the user who requests controls


async def _find_experiments(request: Request) -> Any:
    return request.app.state.experiments


All = Annotated[Experiments, Depends(_find_experiments)]


def _open_experiment(name: str, experiments: All) -> Followed:
    return experiments.open_experiment(name)


Opened = Annotated[Followed, Depends(_open_experiment)]
Where = Annotated[str | None, Query(description="an expression that chooses rows")]
Sort = Annotated[str | None, Query(description="a column to sort by")]
Top = Annotated[int | None, Query(ge=1, description="the best ones alone, so many")]
Reverse = Annotated[bool, Query(description="the other way round")]


class Chosen(NamedTuple):
    """The rows of `trials --json` that a page of an answer has, of `total` that match."""

    rows: list[dict[str, Any]]
    total: int


def choose_rows(
    results: Opened,
    where: Where = None,
    sort: Sort = None,
    reverse: Reverse = False,
    limit: Annotated[int | None, Query(ge=0, description="at most so many")] = None,
    offset: Annotated[int, Query(ge=0, description="after so many")] = 0,
    top: Top = None,
) -> Chosen:
    rows = results.rows
    matches = select_trial_rows(
        rows,
        where=where,
        sort=sort,
        reverse=reverse,
    )
    order = [*choose_trials(results, matches, top)]
    page = [rows[number] for number in order[offset:][:limit]]
    return Chosen(page, len(order))


ChosenRows = Annotated[Chosen, Depends(choose_rows)]


def choose_trials(
    results: Followed, order: Sequence[int], top: int | None
) -> dict[int, str]:
    """The ids of the rows in `order`, or of the best `top` of them, by the number of the row."""
    rows = results.rows
    ids = {number: rows[number]["trial_id"] for number in order}
    if top is None:
        return ids
    among = {*ids.values()}
    ranked = (trial.trial_id for _, trial in results.ranked if trial.trial_id in among)
    best = {*islice(ranked, top)}
    return {number: trial_id for number, trial_id in ids.items() if trial_id in best}
