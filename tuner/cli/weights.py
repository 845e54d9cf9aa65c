"""tuner weights."""

from __future__ import annotations

import click

from tuner.cli import options
from tuner.cli.printing import json_text
from tuner.wording import aligned


@options.group("Search", 6, "tuner weights ls", "tuner weights fetch mobilenet_v3_small")
def weights() -> None:
    """Show and download pretrained weights.

    They lie in torch's cache ($TORCH_HOME, else ~/.cache/torch), where torchvision looks for them,
    too. A search uses them with training.model=torchvision:NAME training.pretrained=true. Weights
    that timm has fetched are listed as well.
    """


@weights.command()
@options.as_json
def ls(as_json: bool) -> int:
    """List the weights that are here, and those that can be fetched."""
    from tuner.vision.weights import LICENCE, SOURCE, WEIGHTS, hub_folder, timm_files

    cached = timm_files()
    if as_json:
        of_timm = [
            {"name": name, "model": f"timm:{name}", "path": str(path), "here": True}
            for name, path in cached.items()
        ]
        click.echo(json_text([*(each.row() for each in WEIGHTS), *of_timm]))
        return 0
    rows = [("NAME", "MODEL", "PARAMETERS", "SIZE", "STATUS")]
    for each in WEIGHTS:
        size, status = f"{each.size_mib:.1f} MiB", "here" if each.is_here else "can be fetched"
        model = f"torchvision:{each.network}"
        rows.append((each.name, model, f"{each.parameters:,}", size, status))
    for name, path in cached.items():
        rows.append((name, f"timm:{name}", "", f"{path.stat().st_size / 2**20:.1f} MiB", "here"))
    click.echo("\n".join(aligned(rows)))
    click.echo(f"folder: {hub_folder()}\nsource: {SOURCE}\nlicence: {LICENCE}", err=True)
    return 0


@weights.command()
@click.argument("name")
@click.option(
    "--source", metavar="URL", help="Download from this mirror: a folder with torchvision's files."
)
def fetch(name: str, source: str | None) -> int:
    """Download the weights NAME, unless they are here, and verify their SHA-256.

    It prints the path of the file.
    """
    from tuner.vision.weights import SOURCE, weights_named
    from tuner.vision.weights import fetch as fetch_weights

    chosen, source = weights_named(name), source or SOURCE
    if not chosen.is_here:
        size, licence = f"{chosen.size_mib:.1f} MiB", chosen.licence
        click.echo(f"downloading {chosen.file}, {size}, from {source} ({licence})", err=True)
    click.echo(str(fetch_weights(chosen, source=source)))
    return 0
