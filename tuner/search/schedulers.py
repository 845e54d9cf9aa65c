"""What ends trials: ASHA in brackets that a journal can rebuild, and the end of the search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ray.tune import Stopper
from ray.tune.experiment import Trial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler

from tuner import ray_compat
from tuner.spec.experiment import AshaSettings, Objective
from tuner.spec.rungs import Brackets

_PATIENCE_S = 5


class InOrder(FIFOScheduler):
    """Stops no trial, and lets Tune start them in their order as workers come free."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def on_trial_add(self, tune_controller: Any, trial: Trial) -> None:
        """Take in a trial; when the search ends, its worker is not waited for as long as Ray would.

        Ray gives the workers 5 s to end by themselves, then those that have not until 10 s have
        passed, and one Ctrl-C in a long epoch takes them all. What a worker has reported is safe by
        then, and what it has not is run again.
        """
        ray_compat.limit_cleanup(tune_controller, _PATIENCE_S)

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        """None: Tune itself takes the next trial.

        Ray's own answer is the oldest pending trial, even one whose worker is just starting. Tune
        then gives it the next free worker and ends the one that has been started for it, whose
        place a new process must fill: with short trials that goes on for as long as the search.
        """
        return None


class Asha(InOrder):
    """Stops trials at rungs by our trial_id and epoch, so that Ray's own ids do not matter.

    brackets: how many run side by side. `stopped` holds the trial_id of each trial that it ended.
    """

    def __init__(self, settings: AshaSettings, objective: Objective, *, brackets: int = 1) -> None:
        super().__init__()
        self._objective = objective.metric  # Ray's scheduler has a `_metric` of its own
        self._sign = 1.0 if objective.mode == "max" else -1.0
        self._brackets = Brackets(
            count=brackets,
            max_t=settings.max_t,
            grace_period=settings.grace_period,
            reduction_factor=settings.reduction_factor,
        )
        self.stopped: set[str] = set()

    def record(self, trial_id: str, epoch: int, metrics: dict[str, float]) -> bool:
        """Take in a report, of now or of a journal; whether the trial goes on."""
        goes_on = self._brackets.goes_on(trial_id, epoch, self._sign * metrics[self._objective])
        if not goes_on:
            self.stopped.add(trial_id)
        return goes_on

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        trial_id = str(trial.config["trial_id"])
        goes_on = self.record(trial_id, int(result["training_iteration"]), result)
        return str(TrialScheduler.CONTINUE if goes_on else TrialScheduler.STOP)


class StopAll(Stopper):
    """Ends every trial as soon as `has_come` says so; never a single one."""

    def __init__(self, has_come: Callable[[], bool]) -> None:
        self._has_come = has_come

    def __getstate__(self) -> dict[str, Any]:
        """Nothing: Ray's snapshots are not used, and what `has_come` looks at does not pickle."""
        return {}

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        return self._has_come()

    def __reduce__(self) -> tuple[type[StopAll], tuple[Callable[[], bool]]]:
        # Ray pickles it into its snapshots, which nobody reads: what it asks cannot go there
        return StopAll, (bool,)
