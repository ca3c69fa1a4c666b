"""phoneproof devices."""

import tempfile
from dataclasses import asdict
from pathlib import Path

import click

from phoneproof.cli.options import debug_option, ends_well, json_option


@click.command(short_help="List the devices that jobs can run on.")
@json_option
@debug_option
@ends_well
def command(as_json: bool) -> int:
    """List the devices that jobs can run on, with their runtimes. In this version: the host."""
    from phoneproof.builds.store import default_store
    from phoneproof.cli.errors_text import printable
    from phoneproof.cli.json_text import json_text
    from phoneproof.runs.hosts import described_host

    with tempfile.TemporaryDirectory(prefix="phoneproof-") as folder:
        description = described_host(Path(folder), default_store())
    if as_json:
        click.echo(json_text({"devices": [asdict(description)]}))
        return 0
    # The host is called so three times over.
    called = dict.fromkeys((description.device_id, description.kind, description.name))
    click.echo(printable("  ".join(called)))
    for name, version in description.runtimes.items():
        click.echo(printable(f"  runtime {name}: {version or 'not usable, see phoneproof doctor'}"))
    for key, value in description.environment.items():
        if value is not None:
            click.echo(printable(f"  {key}: {value}"))
    return 0
