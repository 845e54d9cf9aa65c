"""The best of an experiment, as `tuner best` shows it and as it is handed over.

That is the confirmed leader where there is one, else the best trial of the search.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tuner.results.confirmation import Confirmation, Leader
from tuner.results.confirmations import confirmation_of
from tuner.results.results import Results


@dataclass(frozen=True, slots=True)
class Pick:
    """Whose checkpoint is handed over: a trial of an experiment; None: its best.

    told: what is said of it beside: whether it is searched or confirmed, and of a confirmed leader
    its trial_id in the search, and the retrained model.
    """

    results: Results
    trial_id: str | None
    told: Mapping[str, Any]


def handed_over(results: Results, trial_id: str | None = None) -> Pick:
    """What `export` and `evaluate` take: `trial_id`, else the confirmed leader, else the best."""
    confirmation = confirmation_of(results) if trial_id is None else None
    if confirmation is None:
        return Pick(results, trial_id, {"shown": "searched"})
    best = _entry(results, confirmation, confirmation.chosen)
    told = {name: best[name] for name in ("trial_id", "shown", "confirmed")}
    return Pick(confirmation.results, confirmation.trial.trial_id, told)


def best_json(
    results: Results, *, top: int = 1, metric: str | None = None, mode: str | None = None
) -> list[dict[str, Any]]:
    """What `best --json` says of the `top` best: the confirmed leaders first, then the searched.

    By another metric or mode than the objective's nothing was confirmed: all are searched.
    """
    results.get_best_trial(metric, mode)  # raises where there is none
    asked = (metric or results.metric, mode or results.mode)
    confirmation = confirmation_of(results) if asked == (results.metric, results.mode) else None
    found = []
    if confirmation:
        known = [leader for leader in confirmation.leaders if leader.mean]
        found = [_entry(results, confirmation, leader) for leader in known[:top]]
        if confirmation.results is results:
            return found
    names = {entry["trial_id"] for entry in found}
    others = [t for t in results.top(None, metric, mode) if t.trial_id not in names]
    rest = others[: top - len(found)]
    return [*found, *(results.best_json(t, metric=metric, mode=mode) for t in rest)]


def show_json(results: Results) -> dict[str, Any]:
    """What `show --json` says: `Results.show`, and once its leaders are confirmed, `confirmed`.

    That is {trial_id, experiment, mean, standard_error, seeds, searched}: the confirmed leader's
    trial in the search, the experiment that retrained it, the mean of the objective over that many
    fresh seeds with its standard error, and its value in the search.
    """
    confirmation = confirmation_of(results)
    if confirmation is None:
        return results.show()
    entry = _entry(results, confirmation, confirmation.chosen)
    told = {**entry["confirmed"], "trial_id": entry["trial_id"]}
    del told["seed"]  # of the model that is handed over
    return {**results.show(), "confirmed": told}


def _entry(results: Results, confirmation: Confirmation, leader: Leader) -> dict[str, Any]:
    """A leader as `best --json` shows it; asked of the retrained trials, by their own ids."""
    entry = confirmation.best_json(leader)
    if confirmation.results is results:
        return {**entry, "trial_id": entry["confirmed"]["trial_id"]}
    return entry
