"""What retraining the leaders of a search with fresh seeds has shown, read from their journal.

The retrained leaders are an experiment of their own beside the search, as `tuner.search.confirm` makes
it: a grid of the leaders' configs by the seeds, whose spec says what it confirms.

Everything is told by the validation split: a trial's value is its best epoch's, as everywhere, and
the leader with the best mean over the seeds is the confirmed one. What is handed over of it is the
model of the seed that validates best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tuner.errors import NoUsableTrialError
from tuner.record.events import COMPLETED
from tuner.record.history import TrialRecord
from tuner.results.results import Results
from tuner.results.selection import ranked, score
from tuner.results.statistics import Mean, mean_of, paired_difference
from tuner.spec.experiment import GridSettings, build_spec


@dataclass(frozen=True, slots=True)
class Leader:
    """A leader of the search and what became of its config.

    trial_id, searched: of the trial in the search, and its value there. values: seed -> value of
    the retrained trial, for those that completed. mean: of these, None without any. difference:
    of its values less the confirmed leader's at the same seeds; None for that one.
    """

    trial_id: str
    config: Mapping[str, Any]
    searched: float
    trials: tuple[TrialRecord, ...]
    values: Mapping[int, float]
    mean: Mean | None
    difference: Mean | None = None

    @property
    def optimism(self) -> float | None:
        """searched - mean: what selection and luck made of the value that the search has shown."""
        return None if self.mean is None else self.searched - self.mean.mean

    def as_dict(self) -> dict[str, Any]:
        """As plain values: what `confirm --json` says of it."""
        return {
            "trial_id": self.trial_id,
            "config": dict(self.config),
            "searched": self.searched,
            "values": {str(seed): value for seed, value in self.values.items()},
            "mean": self.mean.mean if self.mean else None,
            "standard_error": self.mean.standard_error if self.mean else None,
            "interval": _interval(self.mean),
            "optimism": self.optimism,
            "difference": self.difference
            and {
                "mean": self.difference.mean,
                "interval": _interval(self.difference),
                "seeds": self.difference.n,
                "told_apart": self.difference.is_settled,
            },
        }


class Confirmation:
    """The retrained leaders of a search, best first; `results` are those of their experiment.

    Raises NoUsableTrialError where no retrained trial has completed, SpecError for an experiment
    that is none of this kind.
    """

    def __init__(self, results: Results) -> None:
        self.results = results
        spec = build_spec(results.spec, str(results.folder))
        assert isinstance(spec.search, GridSettings)
        assert spec.confirms is not None
        self.confirms = spec.confirms
        self.seeds = spec.search.seeds
        by_leader: dict[int, list[TrialRecord]] = {}
        for trial in results.trials.values():
            by_leader.setdefault(int(trial.trial_id) // len(self.seeds), []).append(trial)
        found = [
            _leader(results, trial_id, searched, config, by_leader.get(number, []))
            for number, (trial_id, searched, config) in enumerate(
                zip(self.confirms.trials, self.confirms.values, spec.search.configs, strict=True)
            )
        ]
        self.leaders = _compared(found, 1 if results.mode == "min" else -1)
        if self.chosen.mean is None:
            raise NoUsableTrialError(f"{results.name}: none of the retrained trials completed")

    @property
    def chosen(self) -> Leader:
        """The confirmed leader: of those that completed with most seeds, the best mean."""
        return self.leaders[0]

    @property
    def trial(self) -> TrialRecord:
        """The trial whose model is handed over: the chosen leader's that validates best."""
        return self._model(self.chosen)

    @property
    def first_searched(self) -> Leader:
        """The leader whose value was the best of the search."""
        return next(one for one in self.leaders if one.trial_id == self.confirms.trials[0])

    def best_json(self, leader: Leader | None = None) -> dict[str, Any]:
        """What `best --json` says of a leader (None: the chosen one) that has a mean.

        `trial_id` and `config` are the search's; epoch, metrics and checkpoint are those of the
        leader's retrained model that validates best, which `confirmed` names.
        """
        leader = leader or self.chosen
        assert leader.mean is not None
        model = self._model(leader)
        return {
            **self.results.best_json(model),
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
        """As plain values: what `confirm --json` says, but for the test split."""
        return {
            "name": self.confirms.name,
            "experiment": self.results.name,
            "metric": self.results.metric,
            "mode": self.results.mode,
            "seeds": list(self.seeds),
            "leaders": [leader.as_dict() for leader in self.leaders],
            "chosen": self.chosen.trial_id,
            "told_apart": self.told_apart,
            "best": self.best_json(),
        }

    @property
    def told_apart(self) -> bool:
        """Whether the chosen leader is better than every other one, beyond the seeds' spread."""
        others = self.leaders[1:]
        return all(leader.difference and leader.difference.is_settled for leader in others)

    def _model(self, leader: Leader) -> TrialRecord:
        done = [trial for trial in leader.trials if trial.status == COMPLETED]
        best = ranked(done, self.results.metric, mode=self.results.mode, scope="best")
        return best[0][1]


def _leader(
    results: Results,
    trial_id: str,
    searched: float,
    config: Mapping[str, Any],
    trials: Sequence[TrialRecord],
) -> Leader:
    values: dict[int, float] = {}
    for trial in trials:
        reported = [value for _, value in trial.values(results.metric)]
        value = score(reported, mode=results.mode, scope="best")
        if trial.status == COMPLETED and value is not None and trial.seed is not None:
            values[trial.seed] = value
    mean = mean_of(list(values.values())) if values else None
    return Leader(trial_id, config, searched, tuple(trials), values, mean)


def _compared(found: Sequence[Leader], sign: int) -> tuple[Leader, ...]:
    """Best first, each with its difference to the first; those that failed with a seed last."""

    def rank(leader: Leader) -> tuple[int, float]:
        return -len(leader.values), sign * leader.mean.mean if leader.mean else 0

    first, *others = sorted(found, key=rank)
    return (
        first,
        *(replace(one, difference=paired_difference(one.values, first.values)) for one in others),
    )


def _interval(mean: Mean | None) -> list[float] | None:
    return None if mean is None or mean.low is None or mean.high is None else [mean.low, mean.high]
