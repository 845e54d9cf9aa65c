"""The text of `tuner refine`: 80 columns, no colour."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.spec.by_value import format_python_argument, is_by_value
from tuner.spec.experiment import ExperimentSpec
from tuner.spec.space.spaces import format_space
from tuner.wording import (
    clean_text,
    find_program,
    format_rows,
    shorten,
)

if TYPE_CHECKING:
    from tuner.experiment.results.refinement import Refinement


def format_refinement(
    refinement: Refinement, path: Path, before: Mapping[str, Any]
) -> str:
    """Each domain beside what it was `before`; the path and the command last."""
    rows = []
    for name, value in format_space(refinement.spec.search.space).items():
        was = (
            ""
            if value == before.get(name)
            else f"  (was {shorten(str(before[name]), 100)})"
        )
        rows.append((f"  {clean_text(name)}", shorten(str(value), 100) + was))
    command = f"Run it with: {_format_run_command(refinement.spec, path)}"
    return "\n".join(
        [refinement.note, *format_rows(rows), f"Written to {path}", command]
    )


def describe_refinement(refinement: Refinement, path: Path) -> dict[str, Any]:
    """{path, command, trials, leading, space}; leading: the ids of the trials it goes by."""
    return {
        "path": str(path),
        "command": _format_run_command(refinement.spec, path),
        "trials": refinement.spec.trials,
        "leading": [trial.trial_id for trial in refinement.leading],
        "space": format_space(refinement.spec.search.space),
    }


def _format_run_command(spec: ExperimentSpec, path: Path) -> str:
    """The command or the Python call that runs the spec in the file at `path`."""
    read = f"tuner.ExperimentSpec.from_text(open({clean_text(repr(str(path)))}).read())"
    if spec.is_elsewhere:
        return f"tuner.AskTell({read})"
    if is_by_value(spec.trainable):
        trainable = clean_text(format_python_argument(spec.trainable))
        return f"tuner.run_experiment({read}.replace({trainable}))"
    return f"{find_program()} run {shlex.quote(str(path))}"
