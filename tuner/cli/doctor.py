"""tuner doctor."""

from __future__ import annotations

from dataclasses import asdict

import click

from tuner.cli import options
from tuner.cli.printing import json_text


@click.command(
    cls=options.Command,
    section="Search",
    order=5,
    examples=["tuner doctor", "tuner doctor --address HEAD:6379 --storage /shared/results"],
)
@options.storage
@click.option(
    "--address", metavar="auto|HOST:PORT", help="Also check each node of this Ray cluster."
)
@options.as_json
def doctor(storage: str | None, address: str | None, as_json: bool) -> int:
    """Check this machine for what would break a search.

    It looks at versions, memory, disk, GPUs and the storage. Exit code 1 says that something has to
    be mended.
    """
    from tuner.reporting.doctor import examine

    findings = examine(storage, address)
    broken = any(finding.level == "broken" for finding in findings)
    if as_json:
        plain = [asdict(finding) for finding in findings]
        click.echo(json_text({"ok": not broken, "findings": plain}))
    else:
        from tuner.reporting.tables import findings_text

        click.echo(findings_text(findings))
    return int(broken)
