"""tuner prune."""

from __future__ import annotations

import click

import tuner
from tuner.cli import options
from tuner.cli.consent import ask
from tuner.cli.printing import json_text
from tuner.errors import UsageError, translate_error


@click.command(
    cls=options.Command,
    section="Keep",
    place=4,
    examples=["tuner prune digits --keep 2 --dry-run", "tuner prune digits --keep 2 --yes"],
)
@click.argument("name")
@click.option(
    "--keep",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    metavar="K",
    help="Keep the checkpoints of the K best trials.",
)
@click.option("--dry-run", is_flag=True, help="Only say what it would remove.")
@click.option("--yes", is_flag=True, help="Remove them without asking.")
@options.storage
@options.as_json
def prune(
    name: str, keep: int, dry_run: bool, yes: bool, storage: str | None, as_json: bool
) -> int:
    """Remove checkpoints of experiment NAME that nobody needs.

    The best trials keep theirs, and so do those that failed or have not ended, since a resume goes
    on from them. Metrics, logs and configs stay.
    """
    from tuner.experiment.results.pruning import Pruned, prunable
    from tuner.wording import amount_of, printable, size

    results = tuner.load_results(name, storage)

    def text(pruned: Pruned) -> str:
        trials = amount_of(len(pruned.folders), "trial")
        return f"{printable(results.name)}: checkpoints of {trials}, {size(pruned.freed)}"

    pruned, done = prunable(results, keep=keep), ""
    if pruned.folders and not dry_run:
        if results.files.is_driven:  # said before it asks
            raise UsageError(f"{results.name} is running: end it before it is pruned")
        unattended = "prune asks before it removes, and there is no terminal: give --yes"
        ask(f"remove {text(pruned)}?", yes=yes, unattended=unattended)
        cannot, done = f"cannot prune {results.name}", "removed "
        with results.files.undriven(_warn), translate_error(UsageError, cannot, of=OSError):
            pruned = prunable(tuner.load_results(name, storage), keep=keep)  # as it stands by now
            for folder in pruned.folders:
                results.files.remove_file(folder)
    told = {"folders": pruned.folders, "freed": pruned.freed, "kept": list(pruned.kept)}
    click.echo(json_text(told) if as_json else f"{done}{text(pruned)}")
    return 0


def _warn(text: str) -> None:
    click.echo(text, err=True)
