"""What several commands print: JSON, and warnings."""

from __future__ import annotations

import json

import click

from tuner.wording import clean_text


def format_json(document: object) -> str:
    """The one document that --json promises on stdout, or a part of it."""
    # JSON leaves one control character as it is
    return json.dumps(document, indent=2).replace("\x7f", "\\u007f")


def warn(text: str) -> None:
    click.echo(clean_text(text), err=True)
