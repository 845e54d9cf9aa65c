"""A finding: what a search shows, how far it can be trusted, and the command to run next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from tuner.wording import clean_text

Severity = Literal["high", "medium", "low", "open"]  # open: too few trials to decide
SEVERITIES: tuple[Severity, ...] = get_args(Severity)  # most urgent first


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding.

    kind: its type, as in "edge". seen: a sentence with the figures. meaning: what follows. command:
    what to run next. figures: the numbers of the sentence as plain values.
    """

    kind: str
    severity: Severity
    seen: str
    meaning: str
    command: str
    figures: Mapping[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "kind": self.kind,
            "severity": self.severity,
            "evidence": {**self.figures, "seen": self.seen, "meaning": self.meaning},
            "action": {"command": self.command},
        }

    def format_text(self) -> str:
        """As lines of a terminal."""
        lines = (
            f"{self.severity}: {self.seen}",
            f"  {self.meaning}",
            f"  $ {self.command}",
        )
        return "\n".join(map(clean_text, lines))


def format_share(low: float, high: float) -> str:
    """An interval of shares, in percent.

    >>> format_share(0.123, 0.5)
    '12 % to 50 %'
    """
    return f"{100 * low:.0f} % to {100 * high:.0f} %"
