"""tuner spec."""

from __future__ import annotations

import click

from tuner.cli import options
from tuner.cli.printing import json_text
from tuner.errors import UsageError


@click.command(
    cls=options.Command,
    section="Search",
    place=6,
    examples=[
        "tuner spec search.space",
        "tuner spec max_t",
        "tuner spec --json > spec.schema.json",
    ],
)
@click.argument("key", required=False)
@options.as_json
def spec(key: str | None, as_json: bool) -> int:
    """Explain every key that a spec may have.

    KEY is a section, such as search.space, or a single key, such as scheduler.max_t. The text is
    Markdown; --json prints a JSON schema instead, with which editors check and complete YAML.
    """
    if as_json and key is not None:
        raise UsageError("--json prints the schema as a whole: leave KEY out")
    if as_json:
        from tuner.planning.schema import spec_schema

        click.echo(json_text(spec_schema()))
        return 0
    from tuner.reporting.reference import part, reference

    click.echo(reference() if key is None else part(key))
    return 0
