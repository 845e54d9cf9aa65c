"""What a refined search is, as text or JSON, and the command that runs it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tuner.results.refinement import Refinement
from tuner.space.spaces import space_text
from tuner.wording import printable, program, shorten


def refinement_text(refinement: Refinement, path: Path, before: Mapping[str, Any]) -> str:
    """Each domain beside what it was `before`, as text; the path and the command last."""
    now = space_text(refinement.spec.search.space)
    width = max(map(len, now))
    regions = [
        f"  {printable(name):<{width}}  {shorten(str(value), 100)}"
        + ("" if value == before.get(name) else f"  (was {shorten(str(before[name]), 100)})")
        for name, value in now.items()
    ]
    lines = [
        *refinement.note.splitlines(),
        *regions,
        f"Written to {path}",
        f"Run it with: {_run(path)}",
    ]
    return "\n".join(lines)


def refinement_json(refinement: Refinement, path: Path) -> dict[str, Any]:
    """{path, command, trials, leading, space}; leading: the ids of the trials it goes by."""
    return {
        "path": str(path),
        "command": _run(path),
        "trials": refinement.spec.trials,
        "leading": [trial.trial_id for trial in refinement.leading],
        "space": space_text(refinement.spec.search.space),
    }


def _run(path: Path) -> str:
    return f"{program()} run {shlex.quote(str(path))}"
