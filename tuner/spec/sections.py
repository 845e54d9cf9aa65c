"""Sections of a spec, each frozen and self-checking: objective, resources, timeouts, ..."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from tuner.errors import Fault
from tuner.spec.settings import MAX_COUNT, Count, FaultsError, Settings, bad_value
from tuner.spec.space.constraints import Expression, as_list, parse_condition
from tuner.wording import format_devices

Mode = Literal["min", "max"]
_MOST_OTHERS = 2  # goals beside the first; a front of more has most trials on it
_LOWER = re.compile(
    r"loss|error|perplexity|(?<![a-z])(err|mse|rmse|mae|nll|ppl|fid|latency)(?![a-z])"
)
_HIGHER = re.compile(
    r"acc|(?<![a-z])(auc|auroc|f1|precision|recall|iou|miou|dice|psnr|ssim|bleu|r2|reward|score"
    r"|kappa|mcc)(?![a-z])"
)


def infer_mode(metric: str) -> Mode | None:
    """The mode that a metric's name implies: losses and errors go down, accuracies up; or None.

    >>> infer_mode("val_loss"), infer_mode("top1_error"), infer_mode("val_accuracy")
    ('min', 'min', 'max')
    >>> infer_mode("epoch_s") is None
    True
    """
    name = metric.lower()
    if _LOWER.search(name):
        return "min"
    return "max" if _HIGHER.search(name) else None


def _check_limit(text: str) -> str:
    if not parse_condition(text).names:
        raise bad_value("names no metric", text)
    return text


_Limit = Annotated[Expression, AfterValidator(_check_limit)]


class Goal(Settings):
    """A metric, and which of its values are better.

    What follows from the mode is decided here and nowhere else. Values are finite: a NaN has no
    place in an order, so callers leave it out.
    """

    metric: str = Field(min_length=1, description="its name in the trainable's reports")
    mode: Mode = Field(
        "min",
        description='"min" where lower values are better, "max" where higher ones are; default '
        'what the metric\'s name implies ("max" for val_accuracy), else "min"',
    )

    @model_validator(mode="before")
    @classmethod
    def _infer_mode(cls, raw: Any) -> Any:
        if not isinstance(raw, Mapping) or "mode" in raw:
            return raw
        metric = raw.get("metric")
        implied = infer_mode(metric) if isinstance(metric, str) else None
        return {**raw, "mode": implied} if implied else raw

    @property
    def better(self) -> str:
        return "lower" if self.mode == "min" else "higher"

    @property
    def sign(self) -> int:
        """1 where lower values are better, -1 where higher ones are."""
        return 1 if self.mode == "min" else -1

    def compute_loss(self, value: float) -> float:
        """`value` as a loss, and so as a sort key: the lower, the better."""
        return self.sign * value

    def is_better(self, value: float, than: float | None) -> bool:
        """Whether `value` beats `than`; any value beats None."""
        return than is None or self.compute_loss(value) < self.compute_loss(than)

    def choose_best(self, values: Iterable[float]) -> float:
        """The best of `values`, the first of equals. Raises ValueError where there are none."""
        return min(values, key=self.compute_loss)


class Objective(Goal):
    """The metric that decides which trial is better, and what else counts."""

    metric: str = Field(
        "val_loss", min_length=1, description="its name in the trainable's reports"
    )

    limits: Annotated[tuple[_Limit, ...], as_list] = Field(
        (),
        description='expressions over metrics, such as "latency_ms <= 20"; a report for which one '
        "is not true does not count, so a trial without any other is never the best. Every report "
        "must have these metrics",
    )

    choose: Literal["estimate", "best_epoch"] = Field(
        "estimate",
        description="how a trial's best epoch and the best trial are chosen: by the mean of the "
        "reports around an epoch, so that no lucky one wins, or best_epoch by the best single "
        "report",
    )

    from_epoch: Count | None = Field(
        None,
        description="the first epoch that can be a trial's best; with training.folds the last "
        "fold. Earlier reports only guide the strategy and the scheduler",
    )

    others: tuple[Goal, ...] = Field(
        (),
        description="further objectives, as {metric, mode}, one or two: strategies look for trials "
        "that no other trial beats in every objective. `objectives: [...]` in a spec sets them "
        "all, the first as `objective`, which names the best trial",
    )

    @model_validator(mode="after")
    def _check_goals(self) -> Self:
        names = [goal.metric for goal in self.goals]
        if len({*names}) < len(names) or len(self.others) > _MOST_OTHERS:
            rule = f"must be other metrics, {_MOST_OTHERS} at most"
            raise FaultsError(Fault("others", rule, names[1:]))
        return self

    @property
    def goals(self) -> tuple[Goal, ...]:
        return (self, *self.others)

    @property
    def limited(self) -> tuple[str, ...]:
        return tuple(
            dict.fromkeys(
                n for text in self.limits for n in parse_condition(text).names
            )
        )

    @property
    def required(self) -> tuple[str, ...]:
        """The metrics beside `metric` that every report must have: those of goals and limits."""
        return tuple(
            dict.fromkeys([*(goal.metric for goal in self.others), *self.limited])
        )

    def compute_losses(self, metrics: Mapping[str, float]) -> tuple[float, ...]:
        """A report's value of each goal, as a loss."""
        return tuple(goal.compute_loss(metrics[goal.metric]) for goal in self.goals)

    def can_be_best(self, epoch: int, metrics: Mapping[str, Any]) -> bool:
        """Whether the report of an epoch can be a trial's best one."""
        return epoch >= (self.from_epoch or 0) and self.is_within_limits(metrics)

    def is_within_limits(self, metrics: Mapping[str, Any]) -> bool:
        """Whether a report keeps every limit; one that lacks a metric does not."""
        return all(parse_condition(text).is_true(metrics) for text in self.limits)


LEAST_SHARE = 0.0001  # of a CPU or a GPU
_Seconds = Annotated[float, Field(gt=0, le=MAX_COUNT)]


class Resources(Settings):
    """What one trial reserves."""

    cpus: float = Field(
        1, ge=LEAST_SHARE, description="CPUs for each worker, and its number of threads"
    )
    gpus: float = Field(
        0, ge=0, description="GPUs for each worker, a share below 1 or whole ones"
    )
    workers: Count = Field(
        1,
        description="how many processes train a trial together, each on its part of a batch (DDP "
        "ranks)",
    )
    split: Count = Field(
        1,
        description="how many stages a model is cut into that does not fit on one device, each in "
        "a process of its own",
    )

    @property
    def ranks(self) -> int:
        return self.workers * self.split

    @property
    def ranks_text(self) -> str:
        """The same in words, for a trial of several."""
        return f"{self.ranks} {'workers' if self.split == 1 else 'stages'}"

    @property
    def text(self) -> str:
        """All that a trial reserves, in words."""
        each = format_devices(self.cpus, self.gpus)
        return each if self.ranks == 1 else f"{self.ranks_text} of {each}"

    @model_validator(mode="after")
    def _check_gpus(self) -> Self:
        is_whole = self.gpus == int(self.gpus)
        if 0 < self.gpus < LEAST_SHARE:
            raise FaultsError(
                Fault("gpus", f"must be 0 or at least {LEAST_SHARE}", self.gpus)
            )
        if self.split > 1 and self.workers > 1:
            rule = f"cannot be combined with workers above 1, got {self.split} and {self.workers}"
            raise FaultsError(Fault("split", rule))
        if self.ranks > 1 and not is_whole:
            name = "workers" if self.split == 1 else "split"
            raise FaultsError(
                Fault("gpus", f"must be whole when {name} is above 1", self.gpus)
            )
        if self.gpus > 1 and not is_whole:
            raise FaultsError(
                Fault("gpus", "must be a share below 1 or a whole number", self.gpus)
            )
        return self


class Timeouts(Settings):
    """How long to wait before something counts as hanging, in seconds."""

    report_s: _Seconds = Field(
        3600, description="the longest that an epoch, or a trial's start, may take"
    )
    ranks_s: _Seconds = Field(
        600, description="the longest that one worker of a trial waits for another"
    )


class Checkpoints(Settings):
    """When the checkpoints of a Learner are written."""

    every_s: float = Field(
        5,
        ge=0,
        le=MAX_COUNT,
        description="the least number of seconds between two that are written while the trial "
        "trains on; a kill costs what was trained since. A trial waits for its "
        "checkpoint at a rung, at its end, and where writing takes less than 2 % of an "
        "epoch",
    )


class Stop(Settings):
    """What ends a search, or a trial, early."""

    target: float | None = Field(
        None,
        description="the search ends when a trial reaches this value of the objective, or a better "
        "one",
    )
    patience_trials: Count | None = Field(
        None,
        description="the search ends after so many trials in a row without a better value",
    )
    patience_s: float | None = Field(
        None,
        gt=0,
        description="the search ends after so many seconds without a better value",
    )
    utility: float | None = Field(
        None,
        gt=0,
        description="the search ends when less improvement of the objective than this is expected "
        "of another hour of searching, in the objective's unit; not before 20 trials have ended",
    )
    patience_epochs: Count | None = Field(
        None,
        description="a trial is stopped after so many epochs without a better value of its own",
    )


class Confirms(Settings):
    """The search whose leaders an experiment retrains, best first."""

    name: str = Field(description="the name of that search, in the same storage")
    trials: tuple[str, ...] = Field(min_length=1, description="the leaders' ids in it")
    values: tuple[float, ...] = Field(
        description="the objective that each reached there. Their configs are those of the "
        "experiment's grid, in order"
    )


EPOCH_S = "epoch_s"  # the metric of an epoch's seconds
# Of a Learner, beside what it reports
MEASURED = ("memory_mib", "peak_memory_mib", EPOCH_S)
# The objective of a refit, whose last epoch is its model
EPOCHS_TRAINED = "epochs_trained"


class Refits(Settings):
    """The trial whose config an experiment trains on training and validation images together."""

    name: str = Field(
        pattern="^[A-Za-z0-9][A-Za-z0-9._-]*$",
        description="the name of its experiment, in the same storage",
    )
    trial_id: str = Field(description="its id there")
    epoch: int = Field(ge=1, description="its best epoch there, or its last fold")
    chosen_by: str = Field(description="the objective there, by which it was chosen")
    value: float = Field(
        description="what it reached at that epoch, on the validation split"
    )
    final: bool = Field(
        False,
        description="whether test images train, too, so that nothing can measure the model",
    )


_MODELS = (Objective, Resources, Timeouts, Checkpoints, Stop, Confirms, Refits)
SECTIONS: dict[str, type[Settings]] = {
    model.__name__.lower(): model for model in _MODELS
}
