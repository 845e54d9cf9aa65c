"""Results of retraining a search's leaders with fresh seeds (`tuner confirm`).

That experiment is a grid of the leaders' configs by the seeds; the search's confirmed.json names
it. The leader with the best mean validation value is chosen, and of its retrained models the one
that validates best. A confirmation that is gone, unfinished, or older than the leader counts as
none. The best of an experiment is its confirmed leader, or else its best trial.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tuner.errors import NoUsableTrialError, SpecError, TunerError, UsageError
from tuner.experiment.events import COMPLETED
from tuner.experiment.files import CONFIRMED, REFITTED
from tuner.experiment.results.accuracy import describe_test
from tuner.experiment.results.described import Described
from tuner.experiment.results.measured_tests import read_best_test
from tuner.experiment.results.results import Results
from tuner.experiment.results.selection import find_best_report, rank_trials
from tuner.experiment.results.statistics import Mean, compute_differences, compute_mean
from tuner.experiment.trials import TrialRecord
from tuner.spec.sections import Objective
from tuner.spec.strategies import GridSettings


@dataclass(frozen=True, slots=True)
class Leader:
    """A leader of the search, and how its config did when it was retrained.

    trial_id, searched: in the search. trials: retrained and completed. difference: from the chosen
    leader at equal seeds, allowing for its choice; None for that leader.
    """

    trial_id: str
    config: Mapping[str, Any]
    searched: float
    trials: tuple[TrialRecord, ...]
    difference: Mean | None = None

    @property
    def values(self) -> dict[int, float]:
        """seed -> value of the retrained trial."""
        return {
            t.seed: t.best.value for t in self.trials if t.best and t.seed is not None
        }

    @property
    def mean(self) -> Mean | None:
        values = list(self.values.values())
        return compute_mean(values) if values else None

    @property
    def optimism(self) -> float | None:
        """searched - mean: how much luck and selection improved the value in the search."""
        return None if self.mean is None else self.searched - self.mean.mean

    def as_dict(self) -> dict[str, Any]:
        return {
            "trial_id": self.trial_id,
            "config": dict(self.config),
            "searched": self.searched,
            "values": {str(seed): value for seed, value in self.values.items()},
            "mean": self.mean.mean if self.mean else None,
            "standard_error": self.mean.standard_error if self.mean else None,
            "interval": _describe_interval(self.mean),
            "optimism": self.optimism,
            "difference": self.difference
            and {
                "mean": self.difference.mean,
                "interval": _describe_interval(self.difference),
                "seeds": self.difference.n,
                "told_apart": self.difference.is_settled,
            },
        }


class Confirmation:
    """The retrained leaders, best first. results: of the experiment that retrained them.

    Raises NoUsableTrialError if no retrained trial completed, SpecError for another version's spec.
    """

    def __init__(self, results: Results) -> None:
        self.results = results
        spec = results.spec
        assert isinstance(spec.search, GridSettings)
        assert spec.confirms is not None
        self.confirms = spec.confirms
        self.seeds = spec.search.seeds
        completed: dict[int, list[TrialRecord]] = {}
        for trial in results.trials.values():
            if trial.status == COMPLETED and trial.best:
                number = int(trial.trial_id) // len(self.seeds)
                completed.setdefault(number, []).append(trial)
        searched = zip(
            self.confirms.trials, self.confirms.values, spec.search.configs, strict=True
        )
        leaders = [
            Leader(trial_id, config, value, tuple(completed.get(number, ())))
            for number, (trial_id, value, config) in enumerate(searched)
        ]
        self.leaders = _compare_leaders(leaders, results.objective)
        if self.chosen.mean is None:
            none = f"{results.name}: none of the retrained trials completed"
            raise NoUsableTrialError(f"{none}{results.why_failed}")

    @property
    def chosen(self) -> Leader:
        """The confirmed leader: the best mean among those that completed with the most seeds."""
        return self.leaders[0]

    @property
    def trial(self) -> TrialRecord:
        """The trial whose model is handed over: the chosen leader's that validates best."""
        return self._choose_model(self.chosen)

    @property
    def first_searched(self) -> Leader:
        """The leader whose value was the best of the search."""
        first = self.confirms.trials[0]
        return next(leader for leader in self.leaders if leader.trial_id == first)

    def describe_best(self, leader: Leader | None = None) -> dict[str, Any]:
        """What `best --json` shows of a leader (None: the chosen one) that has a mean.

        trial_id and config are the search's, the rest is of the leader's best retrained model.
        """
        leader = leader or self.chosen
        assert leader.mean is not None
        model = self._choose_model(leader)
        return {
            **self.results.describe_best(model),
            "trial_id": leader.trial_id,
            "config": dict(leader.config),
            "shown": "confirmed",
            "confirmed": {
                "experiment": self.results.name,
                "trial_id": model.trial_id,
                "seed": model.seed,
                "mean": leader.mean.mean,
                "standard_error": leader.mean.standard_error,
                "seeds": leader.mean.n,
                "searched": leader.searched,
            },
        }

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.confirms.name,
            "experiment": self.results.name,
            "metric": self.results.metric,
            "mode": self.results.mode,
            "seeds": list(self.seeds),
            "leaders": [leader.as_dict() for leader in self.leaders],
            "chosen": self.chosen.trial_id,
            "told_apart": self.told_apart,
            "best": self.describe_best(),
        }

    @property
    def told_apart(self) -> bool:
        """Whether the chosen leader is better than every other one, beyond the seeds' spread."""
        others = self.leaders[1:]
        return all(
            leader.difference and leader.difference.is_settled for leader in others
        )

    def _choose_model(self, leader: Leader) -> TrialRecord:
        return rank_trials(leader.trials, self.results.objective)[0][1]


def _compare_leaders(
    leaders: Sequence[Leader], objective: Objective
) -> tuple[Leader, ...]:
    """Best first, each with its difference from the first; those that failed with a seed last."""

    def rank(leader: Leader) -> tuple[int, float]:
        return -len(leader.values), objective.compute_loss(
            leader.mean.mean
        ) if leader.mean else 0

    first, *others = sorted(leaders, key=rank)
    differences = compute_differences(
        [leader.values for leader in others], first.values
    )
    pairs = zip(others, differences, strict=True)
    return first, *(
        replace(leader, difference=difference) for leader, difference in pairs
    )


def _describe_interval(mean: Mean | None) -> list[float] | None:
    return (
        None
        if mean is None or mean.low is None or mean.high is None
        else [mean.low, mean.high]
    )


def refuse_confirmation(results: Results) -> None:
    """Raise UsageError for an experiment that confirms another one."""
    if confirms := results.spec.confirms:
        raise UsageError(f"{results.name} confirms {confirms.name}: name that")


def find_confirmation(results: Results) -> Confirmation | None:
    """The newest valid confirmation of `results`, or None; of a confirmation, itself.

    It is valid while the search's leader is in it and trials have not become longer.
    """
    if results.is_confirmation:
        return _load_confirmation(results)
    leader = find_leaders(results, 1)
    for folder in reversed(find_linked_folders(results)):
        try:
            confirmation = _load_confirmation(Results(folder))
        except TunerError:  # gone, renamed, or damaged: it confirms nothing
            continue
        if confirmation is None or confirmation.confirms.name != results.files.name:
            continue
        is_led_by_them = leader and leader[0].trial_id in confirmation.confirms.trials
        holds = is_led_by_them and not _is_longer(results, confirmation.results)
        return confirmation if holds else None
    return None


def _is_longer(search: Results, confirming: Results) -> bool:
    """Whether the trials of the search have become longer than those that confirm it."""
    try:
        now = search.spec.epochs
        then = confirming.spec.epochs
    except SpecError:  # of another version, which this one does not lengthen
        return False
    return now is not None and then is not None and now > then


def find_leaders(results: Results, k: int) -> list[TrialRecord]:
    """The `k` best usable trials of different configs, seeds aside, best first."""
    by_config: dict[str, TrialRecord] = {}
    for trial in results.top(1 if k == 1 else None):
        by_config.setdefault(json.dumps(drop_seed(trial.config), sort_keys=True), trial)
        if len(by_config) == k:
            break
    return list(by_config.values())


def drop_seed(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name != "seed"}


def find_linked_folders(results: Described, file: str = CONFIRMED) -> list[Path]:
    """The folders, beside that of the search, that it names as its confirmations; oldest first.

    file: CONFIRMED, or REFITTED for its refits.
    """
    try:
        names = results.files.read(file)["experiments"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    folder = results.folder
    beside = folder.parent if folder.name not in ("", "..") else folder.resolve().parent
    plain = [n for n in names if isinstance(n, str)] if isinstance(names, list) else []
    return [beside / name for name in plain if Path(name).name == name != ".."]


def link(results: Results, name: str, file: str = CONFIRMED) -> None:
    """Name the experiment `name` as the search's newest confirmation, or as its refit.

    file: as for `find_linked_folders`. Raises as `ExperimentFolder.check`.
    """
    names = [
        folder.name
        for folder in find_linked_folders(results, file)
        if folder.name != name
    ]
    results.files.write(file, {"experiments": [*names, name]})


def find_refit(results: Results) -> Results | None:
    """The complete refit of the model that validation chooses, if the spec asks for one; or None.

    A refit that has not come to its end is none, nor is that of a trial that is no longer the best.
    """
    if not _wants_refit(results):
        return None
    source, trial = choose_validated_model(results).trial
    report = find_best_report(trial, source.objective)
    for folder in reversed(find_linked_folders(results, REFITTED)):
        try:
            refit = Results(folder)
            refits = refit.spec.refits
        except TunerError:  # gone, renamed, or damaged
            continue
        if refits is None or report is None or not is_trained(refit):
            continue
        chosen = (source.files.name, trial.trial_id, report.epoch)
        if (refits.name, refits.trial_id, refits.epoch) == chosen:
            return refit
    return None


def should_refit(results: Results) -> bool:
    """Whether the spec asks for a refit of the model that validation chooses, and there is none."""
    return _wants_refit(results) and find_refit(results) is None


def _wants_refit(results: Results) -> bool:
    return bool(results.document["spec"].get("refit") and results.ranked)


def is_trained(refit: Results) -> bool:
    """Whether the model of a refit has trained to its end."""
    first = next(iter(refit.trials.values()), None)
    return first is not None and first.status == COMPLETED


def _load_confirmation(results: Results) -> Confirmation | None:
    if not results.is_confirmation or results.status != COMPLETED:
        return None
    return Confirmation(results)


@dataclass(frozen=True, slots=True)
class BestModel:
    """The model to hand over. trial_id: None for the best trial. origin: as in `best --json`."""

    results: Results
    trial_id: str | None
    origin: Mapping[str, Any]

    @property
    def trial(self) -> tuple[Results, TrialRecord]:
        """(the experiment, its trial). Raises NoUsableTrialError, and UsageError for no trial."""
        if self.trial_id is None:
            return self.results, self.results.get_best_trial()
        return self.results, self.results.trial(self.trial_id)


def choose_model(results: Results, trial_id: str | None = None) -> BestModel:
    """What is exported and evaluated: `trial_id`, else the refit, else what validation chooses."""
    if trial_id is None and (refit := find_refit(results)):
        return BestModel(refit, None, {"shown": "refit"})
    return choose_validated_model(results, trial_id)


def choose_validated_model(results: Results, trial_id: str | None = None) -> BestModel:
    """What validation chooses: `trial_id`, else the confirmed leader, else the best trial."""
    confirmation = find_confirmation(results) if trial_id is None else None
    if confirmation is None:
        return BestModel(results, trial_id, {"shown": "searched"})
    best = _describe_leader(results, confirmation, confirmation.chosen)
    origin = {name: best[name] for name in ("trial_id", "shown", "confirmed")}
    return BestModel(confirmation.results, confirmation.trial.trial_id, origin)


def describe_best(
    results: Results,
    *,
    top: int = 1,
    metric: str | None = None,
    mode: str | None = None,
) -> list[dict[str, Any]]:
    """What `best --json` shows: confirmed leaders, then searched trials.

    By another metric or mode nothing is confirmed.
    """
    results.get_best_trial(metric, mode)  # raises if there is none
    objective = (metric or results.metric, mode or results.mode)
    confirmation = (
        find_confirmation(results)
        if objective == (results.metric, results.mode)
        else None
    )
    confirmed = []
    if confirmation:
        leaders = [leader for leader in confirmation.leaders if leader.mean]
        confirmed = [
            _describe_leader(results, confirmation, leader) for leader in leaders[:top]
        ]
        if confirmation.results is results:
            return confirmed
    ids = {entry["trial_id"] for entry in confirmed}
    trials = [
        trial for trial in results.top(top, metric, mode) if trial.trial_id not in ids
    ]
    searched = trials[: top - len(confirmed)]
    return [
        *confirmed,
        *(results.describe_best(t, metric=metric, mode=mode) for t in searched),
    ]


def show_json(results: Results) -> dict[str, Any]:
    """What `show --json` shows: `Results.show`; `confirmed` after a confirmation: {trial_id,
    experiment, mean, standard_error, seeds, searched}; and `test` once that is measured.
    """
    shown = results.show()
    if confirmation := find_confirmation(results):
        entry = _describe_leader(results, confirmation, confirmation.chosen)
        shown["confirmed"] = {**entry["confirmed"], "trial_id": entry["trial_id"]}
        del shown["confirmed"]["seed"]  # of the model that is handed over
    refit = find_refit(results)
    if refit:
        shown["refit"] = refit.name
    test = describe_test(read_best_test(refit or results))
    return {**shown, "test": test} if test else shown


def _describe_leader(
    results: Results, confirmation: Confirmation, leader: Leader
) -> dict[str, Any]:
    """A leader as `best --json` shows it; a confirmation shows the ids of its own trials."""
    entry = confirmation.describe_best(leader)
    if confirmation.results is results:
        return {**entry, "trial_id": entry["confirmed"]["trial_id"]}
    return entry
