"""Searches side by side, as an HTML page."""

from __future__ import annotations

from tuner.reporting.comparison_text import equal_table, headline, spent_table, verdict
from tuner.reporting.figures.compared import comparison_figures
from tuner.reporting.page import render
from tuner.results.comparison import Comparison
from tuner.wording import duration, number


def comparison_page(comparison: Comparison) -> str:
    """The whole page."""
    experiments = [
        [
            entrant.name,
            side.strategy,
            str(entrant.spec.seed),
            number(entrant.curves["trials"].total),
            number(entrant.curves["epochs"].total),
            duration(entrant.curves["seconds"].total),
            "none" if entrant.best is None else number(entrant.best),
        ]
        for side in comparison.sides
        for entrant in side.entrants
    ]
    return render(
        "comparison.html",
        headline=headline(comparison),
        verdict=list(verdict(comparison)),
        tables=[
            ("In all, on average over the seeds", spent_table(comparison)),
            ("Best so far when each had spent as much", equal_table(comparison)),
            (
                "The experiments",
                [["NAME", "STRATEGY", "SEED", "TRIALS", "EPOCHS", "TIME", "BEST"], *experiments],
            ),
        ],
        shown=comparison_figures(comparison),
        notes=comparison.notes,
    )
