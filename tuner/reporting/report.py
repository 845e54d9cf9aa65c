"""The numbers of an experiment's report: its trials by their best values, importances and more.

Optuna's figures omit pruned trials, which under ASHA are most of them. Here each trial with a
value counts. Values far on the bad side, such as the loss of a diverged trial, are drawn at a
fence, since they would squeeze all others into a line.
"""

from __future__ import annotations

import html
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from math import ceil
from statistics import quantiles
from typing import Any, TypeVar

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
from optuna.trial import FrozenTrial, TrialState

from tuner.errors import NoUsableTrialError
from tuner.experiment.events import STOPPED
from tuner.experiment.files import JOURNAL, sha256_of
from tuner.experiment.results.confirmation import (
    best_json,
    confirmation_of,
    measured_test,
    refit_of,
)
from tuner.experiment.results.results import Results
from tuner.experiment.results.statistics import Accuracy, measured_accuracy, with_interval
from tuner.experiment.trials import TrialRecord
from tuner.reporting.advice import advice_json, advise
from tuner.reporting.advice.finding import Finding
from tuner.reporting.optuna_study import frozen_trials, quiet_optuna, study_with
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.sections import Objective
from tuner.wording import amount_of, number, printable

_TOP = 10  # trials in the table of the best
NO_TRIALS = "Nothing to show: no trial that did not fail has a value of the objective."
NO_NAMES = "Nothing to show: all trials have the same config."
FEWEST = 10  # trials, below which no figure of the hyperparameters says anything
MOST_WEIGHED = 2000  # trials that importances are computed from: a second for each thousand

_FAR_OUT = 3  # quartile ranges beyond the quartile: Tukey's outer fence
_LEVEL = 0.9  # of an importance's spread
_RESAMPLES = 30
_LEADING = 5  # trials at least among the best, as PED-ANOVA needs

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class RungCount:
    """How many trials reached the rung at `epoch`, and how many of them were stopped there."""

    epoch: int
    reached: int
    stopped: int


class Report:
    """The numbers of an experiment; raises SpecError for a spec that this version cannot read.

    frozen: trial_id -> Optuna's trial. importances: the greatest first. best: at most ten trials in
    the shape of `best --json`, confirmed ones first; if empty, why_no_best says why.
    """

    def __init__(self, results: Results) -> None:
        self.results = results
        self.spec: ExperimentSpec = results.spec
        self.frozen = {trial.user_attrs["trial_id"]: trial for trial in frozen_trials(results)}
        self.ranked = ranked_trials(results, self.frozen)
        self.importances = importances(self.ranked)
        self.confirmation = confirmation_of(results)
        self.refit = refit_of(results)  # whose model `test` is of, if there is one
        self.test = measured_test(self.refit or results)
        self.best: list[dict[str, Any]] = []
        self.why_no_best = ""
        try:
            self.best = best_json(results, top=_TOP)
        except NoUsableTrialError as error:
            self.why_no_best = str(error)

    @property
    def accuracies(self) -> list[Accuracy]:
        """The known accuracies of the best trial, on the validation and the test split."""
        leaders = self.results.top(1)
        validated = self.results.accuracy(self.results.best_json(leaders[0])) if leaders else None
        return [each for each in (validated, measured_accuracy(self.test)) if each]

    @property
    def names_by_importance(self) -> list[str]:
        """The varying hyperparameters, the most important first if that is known."""
        return [item.name for item in self.importances] or self.ranked.varying

    @property
    def stopped(self) -> list[TrialRecord]:
        """The trials that the scheduler stopped, not a user."""
        trials = self.results.trials.values()
        return [t for t in trials if t.status == STOPPED and t.ended_by is None]

    @property
    def rungs(self) -> list[RungCount]:
        """The rungs of all brackets, ascending; none without a scheduler."""
        scheduler, length = self.spec.scheduler, self.spec.epochs
        if scheduler is None or length is None:
            return []
        reached = Counter(trial.last_epoch for trial in self.results.trials.values())
        stopped = Counter(trial.last_epoch for trial in self.stopped)
        epochs = dict.fromkeys(ceil(epoch) for epoch in scheduler.rungs() if epoch < length)
        return [
            RungCount(rung, sum(n for e, n in reached.items() if e >= rung), stopped[rung])
            for rung in epochs
        ]

    @property
    def failures(self) -> list[dict[str, Any]]:
        failures = []
        for cause, failed in self.results.failures.items():
            trial, ids = failed[0], [trial.trial_id for trial in failed]
            message = trial.error and trial.error.message
            first = {"trial_id": ids[0], "after_epoch": trial.last_epoch, "message": message}
            each = {"kind": cause.kind, "count": len(failed), "first": first, "trial_ids": ids}
            failures.append(each)
        return failures

    @property
    def findings(self) -> list[Finding]:
        return advise(self.results)

    @property
    def provenance(self) -> dict[str, Any]:
        """The document of the experiment, times (UTC), and the source of the report."""
        history, folder = self.results.history, self.results.folder
        return {
            "experiment": self.results.document,
            "started": utc(history.started),
            "ended": utc(history.ended),
            "resumed": history.resumed,
            "journal_sha256": sha256_of(folder / JOURNAL),
            "report_made": utc(datetime.now(UTC).timestamp()),
            "report_made_by": {name: version(name) for name in ("tuner", "optuna", "plotly")},
        }

    @property
    def trained_epochs(self) -> int:
        return sum(trial.last_epoch for trial in self.results.trials.values())

    def as_dict(self) -> dict[str, Any]:
        """As plain values: the document of `report --format json`."""
        results = self.results
        return {
            **results.show(),
            "test": with_interval(self.test),
            "best": self.best[0] if self.best else None,
            "metric": results.metric,
            "mode": results.mode,
            "strategy": self.spec.search.strategy,
            "trained_epochs": self.trained_epochs,
            "wall_s": results.history.duration_s,
            "top": self.best,
            "importances": [asdict(item) for item in self.importances],
            "rungs": [asdict(rung) for rung in self.rungs],
            "failures": self.failures,
            **advice_json(self.findings),
            "confirmation": self.confirmation and self.confirmation.as_dict(),
            "provenance": self.provenance,
        }


def utc(seconds: float | None) -> str | None:
    """Seconds since the epoch as a date and time in UTC, in ISO 8601."""
    return None if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


@dataclass(frozen=True, slots=True)
class RankedTrials:
    """The usable trials as completed ones, best first; names and texts are safe in figures.

    fence: the value at which worse ones are drawn, if any. outside: how many are.
    """

    trials: tuple[FrozenTrial, ...]
    objective: Objective
    fence: float | None = None
    outside: int = 0

    @property
    def label(self) -> str:
        return escaped(self.objective.metric)

    @property
    def varying(self) -> list[str]:
        """The hyperparameters with at least two values, in the order of configs."""
        names = dict.fromkeys(name for trial in self.trials for name in trial.params)
        return [name for name in names if len(set(map(repr, self.values_of(name)))) > 1]

    def values_of(self, name: str) -> list[Any]:
        """The values of a hyperparameter, best trial first."""
        return [trial.params[name] for trial in self.trials if name in trial.params]

    def study(self, most: int | None = None) -> optuna.Study:
        """A Study of the trials, or of at most `most` of them as `leading` chooses."""
        trials = self.trials if most is None else leading(self.trials, most)
        return study_with(sorted(trials, key=lambda trial: trial.number), self.objective)

    def left_out(self, shown: int) -> list[str]:
        """Sentences on the trials that a figure omits or moves to the fence."""
        sentences = selection_note("trials", len(self.trials), shown)
        if self.fence is not None and self.outside:
            worse = "above" if self.objective.sign > 0 else "below"
            sentences.append(
                f"{amount_of(self.outside, 'trial')} {worse} {number(self.fence)} "
                f"{'is' if self.outside == 1 else 'are'} drawn at that value."
            )
        return sentences

    def why_nothing(self, fewest: int = 1) -> str:
        """Why a figure that needs `fewest` trials and a varying hyperparameter is empty."""
        if not self.trials:
            return NO_TRIALS
        if not self.varying:
            return NO_NAMES
        count = len(self.trials)
        return f"Nothing to show: it takes {fewest} trials with a value, and there are {count}."


def ranked_trials(results: Results, frozen: Mapping[str, FrozenTrial]) -> RankedTrials:
    """The trials, `frozen` by their ids, that have a value and have not failed."""
    scored = results.ranked
    objective = results.objective
    fence = fence_of([v for v, _ in scored], objective)
    trials, outside = [], 0
    for value, trial in scored:
        if fence is not None and objective.is_better(fence, value):
            value, outside = fence, outside + 1
        trials.append(_completed(frozen[trial.trial_id], value))
    return RankedTrials(tuple(trials), objective, fence, outside)


def selection_note(things: str, total: int, shown: int) -> list[str]:
    """The sentence on a selection; none if all are shown."""
    if shown == total:
        return []
    selection = "the best ones, and an even selection of the others"
    return [f"Of {total} {things} {shown} are drawn: {selection}."]


def fence_of(values: Sequence[float], objective: Objective) -> float | None:
    """The value beyond which bad values are outliers, or None without outliers."""
    if len(values) < 4:
        return None
    costs = [objective.key(value) for value in values]
    low, _, high = quantiles(costs, n=4, method="inclusive")
    fence = high + _FAR_OUT * (high - low)
    return objective.sign * fence if max(costs) > fence else None


def _completed(trial: FrozenTrial, value: float) -> FrozenTrial:
    completed = copy(trial)
    completed.state, completed.value = TrialState.COMPLETE, float(value)
    completed.distributions = {escaped(n): _safe(d) for n, d in trial.distributions.items()}
    completed.params = {escaped(name): _safe_value(v) for name, v in trial.params.items()}
    completed.datetime_complete = trial.datetime_complete or datetime.now()
    return completed


def _safe(distribution: BaseDistribution) -> BaseDistribution:
    if isinstance(distribution, CategoricalDistribution):
        return CategoricalDistribution([_safe_value(choice) for choice in distribution.choices])
    return distribution


def escaped(text: object) -> str:
    """`text` so that a figure shows it as it is: Plotly reads tags and entities in labels."""
    return html.escape(printable(str(text)), quote=False)


def _safe_value(value: Any) -> Any:
    return escaped(value) if isinstance(value, str) else value


def leading(items: Sequence[_T], most: int) -> list[_T]:
    """At most `most` of `items`, the best one first: the first half whole, the others evenly.

    >>> leading(range(12), 6)
    [0, 1, 2, 3, 7, 11]
    """
    if len(items) <= most:
        return list(items)
    return [*items[: most // 2], *evenly(items[most // 2 :], most - most // 2)]


def evenly(items: Sequence[_T], most: int) -> list[_T]:
    """At most `most` of `items`, at equal distances, the first and the last among them.

    >>> evenly(range(11), 3)
    [0, 5, 10]
    """
    if len(items) <= most:
        return list(items)
    step = (len(items) - 1) / max(most - 1, 1)
    return [items[round(i * step)] for i in range(most)]


@dataclass(frozen=True, slots=True)
class Importance:
    """A hyperparameter's share, 0 to 1, of all importance; low, high: of nine in ten resamples.

    told_apart: whether its interval and that of the first (for the first: all others) are disjoint.
    By chance alone, the first of several useless hyperparameters has more than half of all
    importance.
    """

    name: str
    share: float
    low: float
    high: float
    told_apart: bool = True


def importances(ranked: RankedTrials) -> list[Importance]:
    """Each varying hyperparameter's importance, the greatest first; [] for fewer than 10 trials.

    PED-ANOVA (Watanabe et al., IJCAI 2023; in Optuna) measures what distinguishes the best tenth of
    the trials (at least 5) from all. The ages of the other trials do not matter. The spread is that
    of resampled trials. At most `MOST_WEIGHED` trials are used, evenly over their ranks.
    """
    trials, names = evenly(ranked.trials, MOST_WEIGHED), ranked.varying
    objective = ranked.objective
    if len(trials) < FEWEST or not names:
        return []
    chance = random.Random(0)
    with quiet_optuna():  # it warns of few trials; the spread shows what that means
        shares = _shares(trials, names, objective)
        resamples = [chance.choices(trials, k=len(trials)) for _ in range(_RESAMPLES)]
        resampled = [_shares(resample, names, objective) for resample in resamples]
    cut = round(_RESAMPLES * (1 - _LEVEL) / 2)
    listed = []
    for name in names:
        spread = sorted(sample.get(name, 0.0) for sample in resampled)
        listed.append(Importance(name, shares.get(name, 0.0), spread[cut], spread[-1 - cut]))
    first, *others = sorted(listed, key=lambda item: -item.share)
    others = [replace(item, told_apart=item.high < first.low) for item in others]
    return [replace(first, told_apart=all(item.told_apart for item in others)), *others]


def _shares(
    trials: Sequence[FrozenTrial], names: Sequence[str], objective: Objective
) -> dict[str, float]:
    best = min(1.0, max(0.1, _LEADING / len(trials)))
    return get_param_importances(
        study_with(trials, objective),
        evaluator=PedAnovaImportanceEvaluator(target_quantile=best),
        params=[name for name in names if any(name in trial.params for trial in trials)],
    )
