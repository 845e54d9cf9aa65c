"""The effect of controls on a search: the fold of its `control` events. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tuner.experiment.events import CONTROL, Event
from tuner.experiment.verbs import VERBS

REQUESTED = "asked"  # the origin of a trial whose config was asked for
# In experiment.json: the id of the last control that its spec has taken in
LATEST = "controls"


class Answer(NamedTuple):
    """A journaled control. by: the requester, or "". refused: the reason, or None."""

    id: str
    time: float
    control: Mapping[str, Any]
    by: str = ""
    refused: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """As `show --json` has it."""
        fields = {
            name: value
            for name, value in self._asdict().items()
            if value not in ("", None)
        }
        return {**fields, "control": dict(self.control)}


class Requested(NamedTuple):
    """A config to try. trial_id: of its trial; None in a journal of an earlier version."""

    config: dict[str, Any]
    trial_id: str | None = None


@dataclass(slots=True)
class Steered:
    """All controls in order, and the effect of those that were not refused.

    changes: of the spec, since the driver's last start. samples: last requested number of trials.
    stops: trial_id -> control. tries: requested configs. paused: the control's id, or None; a
    resume goes on. finishing: no more trials begin until the search has ended.
    """

    answers: list[Answer] = field(default_factory=list)
    changes: dict[str, Any] = field(default_factory=dict)
    samples: int | None = None
    stops: dict[str, Answer] = field(default_factory=dict)
    tries: list[Requested] = field(default_factory=list)
    paused: str | None = None
    finishing: bool = False

    @property
    def ids(self) -> set[str]:
        """Those of all requests that were answered."""
        return {answer.id for answer in self.answers}

    def find_answer(self, control_id: str | None) -> Answer | None:
        """The control of this id, if there is one."""
        return next(
            (answer for answer in self.answers if answer.id == control_id), None
        )

    def list_waiting(self, begun: Iterable[str]) -> Iterator[Requested]:
        """The tries whose trial has not begun. begun: the trials of requested configs."""
        begun = set(begun)
        nameless = len(begun - {each.trial_id for each in self.tries})
        for each in self.tries:
            if each.trial_id is None and nameless:
                nameless -= 1  # the first ones began first
            elif each.trial_id not in begun:
                yield each

    def apply(self, event: Event) -> None:
        """Take a `control` event into account. A verb that is not known changes nothing."""
        answer = _parse_answer(event)
        self.answers.append(answer)
        if answer.refused is not None:
            return
        match answer.control:
            case {"verb": "stop-trial", "trial_id": str(trial_id)}:
                self.stops[trial_id] = answer
            case {"verb": "pause"}:
                self.paused = answer.id
            case {"verb": "go-on"}:
                self.paused = None
            case {"verb": "finish"}:  # those that have begun go on to their end
                self.finishing = True
                self.paused = None
            case {"verb": "try", "config": dict(config)}:
                self.tries.append(Requested(config, event.get("trial_id")))
            case _:
                self.changes |= _find_change(answer.control)
                self.samples = self.changes.get("num_samples", self.samples)


def apply_controls(
    document: Mapping[str, Any], answers: Iterable[Answer]
) -> dict[str, Any]:
    """experiment.json with the spec that the journaled controls have made of it."""
    answers = list(answers)
    ids = [answer.id for answer in answers]
    latest = document.get(LATEST)
    new = answers[ids.index(latest) + 1 :] if latest in ids else answers
    spec = dict(document["spec"])
    for answer in new:
        if answer.refused is None:
            spec |= _find_change(answer.control)
    return {**document, "spec": spec, **({LATEST: ids[-1]} if ids else {})}


def collect_answers(events: Iterable[Event]) -> list[Answer]:
    """The controls among events, in order."""
    return [_parse_answer(event) for event in events if event.get("event") == CONTROL]


def _parse_answer(event: Event) -> Answer:
    by = event.get("by", "")
    refused = event.get("refused")
    return Answer(event["id"], event["time"], event["control"], by, refused)


def _find_change(control: Mapping[str, Any]) -> dict[str, Any]:
    """What a control changes of the spec."""
    verb = VERBS.get(str(control.get("verb")))
    is_change = verb is not None and verb.is_setting and verb.field in control
    return {verb.field: control[verb.field]} if verb and is_change else {}
