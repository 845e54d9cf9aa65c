"""Advice on a finished or running search: findings with figures, and a command for each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tuner.reporting.advice.curves import check_curves
from tuner.reporting.advice.domains import check_space
from tuner.reporting.advice.finding import SEVERITIES, Finding
from tuner.reporting.advice.images import check_images
from tuner.reporting.advice.isolation import compare_values
from tuner.reporting.advice.leaders import check_leaders
from tuner.reporting.advice.record import SearchRecord
from tuner.reporting.advice.spending import check_spending

if TYPE_CHECKING:
    from tuner.experiment.results.results import Results


class Advice(list[Finding]):
    """Findings, which Python and notebooks show as text, three lines each."""

    def __repr__(self) -> str:
        if not self:
            return "Nothing to advise: no finding is beyond chance."
        return "\n\n".join(finding.format_text() for finding in self)


def advise(search: Results | SearchRecord, *, ask: Sequence[str] = ()) -> Advice:
    """The answers on the hyperparameters `ask`, then the findings, most urgent first.

    Those on a user's own images come before those on hyperparameters, and a few trials are enough
    for these. Raises UsageError for a hyperparameter that is not searched. A confirmation gets no
    advice on its space, which is a list of leaders, or on its rungs.
    """
    record = search if isinstance(search, SearchRecord) else SearchRecord.build(search)
    answers = [compare_values(record, name) for name in ask]
    findings = [*check_curves(record), *check_leaders(record)]
    if not record.spec.confirms:
        findings += [*check_spending(record), *check_space(record)]
    if record.has_own_images:
        findings = [finding for finding in findings if finding.kind != "few_trials"]
    ordered = [*_sort_by_urgency(check_images(record)), *_sort_by_urgency(findings)]
    return Advice([*answers, *ordered])


def _sort_by_urgency(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))


def describe_findings(findings: Sequence[Finding]) -> dict[str, Any]:
    """The document of `advise --json`."""
    return {"findings": [finding.as_dict() for finding in findings]}
