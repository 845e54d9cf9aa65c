"""What `tuner doctor` found, as a table; what to do about it below."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tuner.wording import printable

if TYPE_CHECKING:
    from rich.console import Group

    from tuner.doctor.finding import Finding

_STYLES = {"ok": "green", "warning": "yellow", "broken": "bold red"}


def doctor_table(findings: Sequence[Finding]) -> Group:
    """A row for each finding, a line of advice for each that is not "ok", and the verdict."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(overflow="fold")
    table.add_column(no_wrap=True)
    topic = None
    for finding in findings:
        table.add_row(
            Text("" if finding.topic == topic else finding.topic, style="bold"),
            Text(printable(finding.name)),
            Text(printable(finding.found)),
            Text(finding.level, style=_STYLES[finding.level]),
        )
        topic = finding.topic
    told = [finding for finding in findings if finding.level != "ok"]
    advice = [
        Text.assemble(
            (finding.level, _STYLES[finding.level]),
            f"  {printable(f'{finding.topic}, {finding.name}: {finding.advice}')}",
        )
        for finding in told
    ]
    return Group(table, *([Text()] if advice else []), *advice, Text(), Text(_verdict(told)))


def _verdict(told: Sequence[Finding]) -> str:
    broken = sum(finding.level == "broken" for finding in told)
    if broken:
        return f"A search would not work: {broken} {'finding' if broken == 1 else 'findings'}."
    warnings = f", {len(told)} {'warning' if len(told) == 1 else 'warnings'}" if told else ""
    return f"Nothing would break a search{warnings}."
