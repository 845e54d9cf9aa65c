"""Results as a notebook shows them: a line of how they stand, and the best trials as a table."""

from __future__ import annotations

from html import escape
from math import isnan
from typing import TYPE_CHECKING, Any

from tuner.wording import amount_of, number

if TYPE_CHECKING:
    import pandas as pd

    from tuner.results.results import Results

SHOWN = 10  # trials


def results_html(results: Results) -> str:
    """The experiment as HTML: every text of others is escaped, nothing in it runs."""
    counts = ", ".join(f"{count} {status}" for status, count in results.counts.items() if count)
    trials = amount_of(len(results.trials), "trial")
    head = f"<b>{escape(results.name)}</b>: {escape(results.status)}, {trials}"
    best = results.top(SHOWN)
    if not best:
        return f"<p>{head}: {counts or 'none has started'}</p>"
    frame = results.dataframe().set_index("trial_id", drop=False)
    table = _columns(frame.loc[[trial.trial_id for trial in best]], results.metric)
    html = table.to_html(
        index=False,
        border=0,
        na_rep="",
        formatters=dict.fromkeys(table.columns, _cell),
        escape=True,
    )
    more = f"<p>The best {len(best)}; all: <code>dataframe()</code></p>"
    return f"<p>{head}: {counts}</p>\n{html}" + (
        f"\n{more}" if len(results.trials) > len(best) else ""
    )


def _columns(frame: pd.DataFrame, metric: str) -> pd.DataFrame:
    """What tells the trials apart, under short names."""
    configs = [name for name in frame.columns if name.startswith("config/")]
    names = {
        "trial_id": "trial",
        "status": "status",
        f"best/{metric}": f"best {metric}",
        "best_epoch": "epoch",
        **{name: name.removeprefix("config/") for name in configs},
    }
    return frame[list(names)].rename(columns=names)


def _cell(value: Any) -> str:
    missing = value is None or (isinstance(value, float) and isnan(value))
    return "" if missing else number(value)
