"""The verbs by which a search is steered. `tuner --help` reads them, so nothing is imported."""

from __future__ import annotations

from typing import NamedTuple


class Verb(NamedTuple):
    """A control, for the command line, the driver, the endpoints and the page.

    title: of its button. field: of its value, or "". written: the value in usage. is_setting:
    changes the spec's `field`. is_end: the page asks first.
    """

    name: str
    title: str
    does: str
    field: str = ""
    written: str = ""
    is_setting: bool = False
    is_end: bool = False


_TRIAL = "end this trial after its current epoch"
_AT_ONCE = "run at most N trials at a time; none: as many as fit"
_TIME = "end the search this long after its start; none: never"
_ALL = [
    Verb("stop-trial", "Stop", _TRIAL, "trial_id", "ID", is_end=True),
    Verb("pause", "Pause", "stop all trials for a while, after their current epochs"),
    Verb("go-on", "Go on", "continue after a pause"),
    Verb(
        "max-concurrent", "Trials at a time", _AT_ONCE, "max_concurrent", "N|none", True
    ),
    Verb("time-budget", "Time budget", _TIME, "time_budget_s", "TIME|none", True),
    Verb(
        "num-samples", "Trials in all", "run N trials in all", "num_samples", "N", True
    ),
    Verb(
        *("try", "Try a config", "try this config next, as an additional trial"),
        *("config", "KEY=VALUE ..."),
    ),
    Verb(
        "finish",
        "Finish",
        "start no more trials, and end with those that run",
        is_end=True,
    ),
]
VERBS = {verb.name: verb for verb in _ALL}
