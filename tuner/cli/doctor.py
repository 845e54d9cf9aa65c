"""tuner doctor."""

from __future__ import annotations

import sys

import click

from tuner.cli import options
from tuner.cli.printing import json_text


@click.command(cls=options.Command, section="Search", place=5)
@options.storage
@click.option("--address", metavar="auto|HOST:PORT", help="Check this running cluster, too.")
@options.as_json
def doctor(storage: str | None, address: str | None, as_json: bool) -> int:
    """Check what would break a search here, and what is open."""
    from tuner.doctor.examine import examine, is_broken

    findings = examine(storage, address)
    broken = is_broken(findings)
    if as_json:
        told = [finding.as_dict() for finding in findings]
        click.echo(json_text({"ok": not broken, "findings": told}))
    else:
        from tuner import streams
        from tuner.reporting.tables import findings_table

        streams.console(sys.stdout).print(findings_table(findings))
    return int(broken)
