"""tuner serve."""

from __future__ import annotations

from pathlib import Path

import click

from tuner.cli import options
from tuner.cli.printing import print_tunnel

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(
    cls=options.Command,
    section="Look",
    place=6,
    examples=[
        "tuner serve",
        "tuner serve --storage s3://BUCKET/results --port 0",
        "tuner serve --host 0.0.0.0 --cert server.pem --key server.key",
    ],
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="The address to listen on; one that others can reach needs TLS.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8642,
    show_default=True,
    metavar="N",
    help="The port to listen on; 0 takes a free one.",
)
@click.option("--cert", type=_FILE, metavar="FILE", help="The certificate for TLS.")
@click.option("--key", type=_FILE, metavar="FILE", help="The private key of the certificate.")
@click.option("--insecure", is_flag=True, help="Allow a --host that others can reach without TLS.")
@options.storage
@click.option(
    "--keep-token",
    is_flag=True,
    help="Use the same token at each start.  [or set $TUNER_SERVE_TOKEN]",
)
def serve(
    host: str,
    port: int,
    cert: Path | None,
    key: Path | None,
    insecure: bool,
    storage: str | None,
    keep_token: bool,
) -> int:
    """Show the experiments in a browser, and steer those that run.

    Open the address that it prints. The token in it is the key: nothing is shown without it.
    """
    from tuner.service.server import serve as run

    def tell(url: str, port: int) -> None:
        click.echo(url)
        print_tunnel(port, host=host)

    run(
        storage,
        host=host,
        port=port,
        cert=cert,
        key=key,
        is_insecure=insecure,
        is_token_kept=keep_token,
        tell=tell,
    )
    return 0
