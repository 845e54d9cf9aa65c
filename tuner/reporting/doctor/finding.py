"""A thing that was looked at."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

GIB = 1 << 30

Level = Literal["ok", "warning", "broken"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `advice` says what to do where it is not "ok".

    level: "broken" where a search would not work, "warning" where it might not, or be slow, or be
    open to others.
    """

    topic: str
    name: str
    found: str
    level: Level = "ok"
    advice: str = ""

    def as_dict(self) -> dict[str, Any]:
        """As plain values: what `doctor --json` says of it."""
        return asdict(self)


def size(count: float) -> str:
    """`count` bytes, in GiB."""
    return f"{count / GIB:.1f} GiB"
