"""How much each hyperparameter decides whether a trial is among the best, and how sure that is."""

from __future__ import annotations

import random
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
from optuna.trial import FrozenTrial

from tuner.reporting.comparable import Comparable, study_with

FEWEST = 10  # trials, below which an importance says nothing
LEVEL = 0.9  # of the spread
RESAMPLES = 30
_LEADING = 5  # trials at least among the best, as PED-ANOVA needs


@dataclass(frozen=True, slots=True)
class Importance:
    """A hyperparameter's share, 0 to 1, of all importances; low, high: of nine in ten resamples."""

    name: str
    share: float
    low: float
    high: float


def importances(compared: Comparable, *, seed: int = 0) -> list[Importance]:
    """Each varying hyperparameter's importance, the greatest first; [] for fewer than 10 trials.

    PED-ANOVA (Watanabe et al., IJCAI 2023; in Optuna): what tells the best tenth of the trials (at
    least 5) from all of them. It asks only who is among the best, so it does not matter that the
    others were stopped at different ages. The spread is that of resampling the trials.
    """
    names = compared.varying
    if len(compared.trials) < FEWEST or not names:
        return []
    found = _evaluate(compared.trials, names, compared.mode)
    chance = random.Random(seed)
    drawn = [
        _evaluate(chance.choices(compared.trials, k=len(compared.trials)), names, compared.mode)
        for _ in range(RESAMPLES)
    ]
    spreads = {name: sorted(shares.get(name, 0.0) for shares in drawn) for name in names}
    cut = round(RESAMPLES * (1 - LEVEL) / 2)
    listed = [
        Importance(name, found.get(name, 0.0), spread[cut], spread[-1 - cut])
        for name, spread in spreads.items()
    ]
    return sorted(listed, key=lambda one: -one.share)


def _evaluate(trials: Sequence[FrozenTrial], names: Sequence[str], mode: str) -> dict[str, float]:
    share = min(1.0, max(0.1, _LEADING / len(trials)))
    present = [name for name in names if any(name in trial.params for trial in trials)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that few trials make it uncertain: the spread tells
        return get_param_importances(
            study_with(trials, mode),
            evaluator=PedAnovaImportanceEvaluator(target_quantile=share),
            params=present,
        )
