"""A search that runs elsewhere, seen through its journal: once, or until it ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import IO

from tuner.record.journal import Tail, is_driven, renew
from tuner.reporting.plan_text import reserves
from tuner.reporting.tally import Tally
from tuner.reporting.terminal import Progress, live_view
from tuner.results.results import Results
from tuner.spec.experiment import ExperimentSpec, build_spec

_EVERY_S = 0.5
_WIDTH = 80


def standing(results: Results, *, now: float) -> str:
    """How a running search stands, in the lines of the live view: 80 columns, no colour."""
    from rich.console import Console

    spec = _spec(results)
    tally = Tally.of(spec)
    for event in Tail(results.folder).read():
        tally.take(event)
    console = Console(width=_WIDTH, color_system=None, force_terminal=False)
    with console.capture() as captured:
        console.print(f"{results.name}: running")
        console.print(live_view(tally, now=now, each=reserves(spec.resources), width=_WIDTH))
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def follow(
    results: Results,
    *,
    stream: IO[str] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Show on `stream` (None: stderr) how a search goes until its driver has ended."""
    spec = _spec(results)
    tail = Tail(results.folder)
    progress = Progress(
        Tally.of(spec), each=reserves(spec.resources), stream=stream, earlier=tail.read()
    )
    try:
        while is_driven(results.folder):
            sleep(_EVERY_S)
            renew(results.folder)
            for event in tail.read():
                progress(event)
        for event in tail.read():
            progress(event)
    finally:
        progress.close()


def _spec(results: Results) -> ExperimentSpec:
    return build_spec(results.spec, str(results.folder))
