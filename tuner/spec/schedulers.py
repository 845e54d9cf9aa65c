"""The section `scheduler` of a spec; see `tuner.spec.loading`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    SerializeAsAny,
    ValidationInfo,
)

from tuner.errors import Fault
from tuner.spec.loading import Registry
from tuner.spec.sections import Objective
from tuner.spec.settings import Count, FaultsError, Settings

NONE = "none"  # the name that stands for no scheduler
DEFAULT = "asha"


class SchedulerSettings(Settings):
    """What every scheduler takes, and what others ask of it; each scheduler's own is a subclass."""

    name: str = Field(
        description="asha, none, or a module of your own such as my_package.my_scheduler"
    )
    max_t: Count = Field(10, description="the most epochs that a trial may train")

    def build(self, objective: Objective, *, brackets: int = 1) -> Any:
        """Ray Tune's scheduler of these settings, a `StoppingScheduler`."""
        return SCHEDULERS.load_extension(self.name).build(self, objective, brackets)

    def settle(self, trials: int | None) -> SchedulerSettings:
        """These settings with open ones decided for `trials` (None: time ends the search)."""
        return self

    def describe_first_rung(self) -> str | None:
        """The first rung that `settle` has decided, as text for the plan, or None."""
        return None

    def count_brackets(self, default: int) -> int:
        """The number of brackets; `default` is what the search would have."""
        return 1

    def extend(self, max_t: int) -> SchedulerSettings:
        """These settings with a later end that keeps all earlier decisions valid."""
        return self.model_copy(update={"max_t": max_t})

    def rungs(self) -> tuple[float, ...]:
        """The epochs below `max_t` at which trials are compared, ascending."""
        return ()

    def estimate_epochs(self, brackets: int) -> float | None:
        """The average length of a trial, or None if unknown."""
        return None

    def stopping_text(self) -> str:
        """When trials are stopped, for the plan of the experiment."""
        return f"{self.name}, at {self.max_t} epochs at the latest"

    def describe_brackets(self, brackets: int) -> str:
        """What the brackets do, for the plan of an experiment that has several."""
        return str(brackets)

    def disable_stopping(self) -> SchedulerSettings:
        """Settings under which every trial trains to `max_t`."""
        values = {"name": DEFAULT, "max_t": self.max_t, "grace_period": self.max_t}
        return SCHEDULERS.load_settings(DEFAULT).model_validate(values)


class UncheckedScheduler(SchedulerSettings):
    """The settings of a user's scheduler whose module is not imported."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, JsonValue] = Field(init=False)


SCHEDULERS = Registry(
    "scheduler",
    "tuner.search.schedulers",
    "",
    SchedulerSettings,
    UncheckedScheduler,
    also=(NONE,),
)


def _read(raw: object, info: ValidationInfo) -> object:
    if isinstance(raw, str):
        raw = {"name": raw}
    if not isinstance(raw, Mapping):
        return raw
    name = str(raw.get("name", DEFAULT))
    if name == NONE:  # no trial is stopped before `max_t`
        rule = f"is not used by scheduler {NONE}, which takes max_t alone"
        unused = {
            key: value for key, value in raw.items() if key not in ("name", "max_t")
        }
        if unused:
            raise FaultsError(
                *(Fault(key, rule, value) for key, value in unused.items())
            )
        if "max_t" not in raw:
            return None
        name = DEFAULT
        raw = {"name": DEFAULT, "max_t": raw["max_t"], "grace_period": raw["max_t"]}
    return SCHEDULERS.read(raw, name, info.context)


Scheduler = Annotated[SerializeAsAny[SchedulerSettings] | None, BeforeValidator(_read)]
