"""The command advise."""

from __future__ import annotations

import click

import tuner
from tuner.cli import options
from tuner.cli.printing import json_text


@options.command(
    "Explain", 0, "tuner advise digits", "tuner advise digits --ask lr,batch_size --json"
)
@click.argument("name")
@click.option(
    "--ask",
    metavar="KEY,...",
    help="Compare the values of these hyperparameters, each at the best of all others.",
)
@options.storage
@options.as_json
def advise(name: str, ask: str | None, storage: str | None, as_json: bool) -> int:
    """Say what to change after the search NAME, most urgent first.

    Each finding has what was seen, with its interval; what it means; and the command to run next.
    It reads the journal alone.
    """
    from tuner.reporting.advice.advice import advice_json, advice_text, advise
    from tuner.reporting.advice.record import SearchRecord

    record = SearchRecord.of(tuner.load_results(name, storage))
    findings = advise(record, ask=ask.split(",") if ask else ())
    click.echo(json_text(advice_json(findings)) if as_json else advice_text(findings))
    return 0
