"""The shapes of answers, for their OpenAPI schemas alone: no answer is validated or copied."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

Config = dict[str, Any]
Point = tuple[int, float]  # a trial's number or an epoch, and a value


class Error(BaseModel):
    """Why a request was refused."""

    error: str


class Best(BaseModel):
    """A trial of `tuner best --json`."""

    trial_id: str
    config: Config
    epoch: int
    metrics: dict[str, float]
    checkpoint: str | None
    shown: Literal["searched", "confirmed"]


class Requested(BaseModel):
    """A control that was requested, in words as `text`; time and refused: the driver's answer."""

    id: str
    control: dict[str, Any]
    by: str = ""
    text: str = ""
    time: float | None = None
    refused: str = ""


class Change(BaseModel):
    """What a resume has changed of the spec."""

    time: float | None
    after_epochs: int | None
    was: dict[str, Any]
    is_: dict[str, Any] = Field(alias="is")


class Shown(BaseModel):
    """An experiment as `tuner show --json` has it."""

    name: str
    status: str
    counts: dict[str, int]
    best: Best | None
    ended_by: str = ""
    confirmed: dict[str, Any] = {}
    validation: dict[str, Any] = {}
    test: dict[str, Any] = {}
    controls: list[Requested] = []
    paused: bool = False
    changes: list[Change] = []


class Row(BaseModel):
    """A trial of `tuner trials --json`; its metrics and hyperparameters are further columns."""

    trial_id: str
    status: str
    epochs: int
    epoch: int | None
    time: float
    error: str | None
    config: Config


class Trial(Row):
    """A trial of `tuner trials --trial ID --json`."""

    message: str | None
    reports: list[dict[str, float | None]]


class Curve(BaseModel):
    """What a trial reported of a metric."""

    trial_id: str
    status: str
    points: list[Point]


class Curves(BaseModel):
    """What the page draws; `curves` are of the metric `of`."""

    metric: str
    mode: str
    metrics: list[str]
    dots: list[tuple[int, float, str]]
    best_so_far: list[Point]
    of: str
    curves: list[Curve]


class Created(BaseModel):
    """created: false if the experiment already existed with the same spec."""

    name: str
    created: bool


class Suggestion(BaseModel):
    """A trial to run; `epoch` is the last one that is recorded of it."""

    trial_id: str
    config: Config
    seed: int | None
    epoch: int


class Suggested(BaseModel):
    """ended: no more trials will be suggested."""

    trial: Suggestion | None
    ended: bool


class TrialState(BaseModel):
    """Whether a trial should stop, and its status."""

    should_stop: bool
    status: str
