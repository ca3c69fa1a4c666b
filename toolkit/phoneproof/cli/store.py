"""phoneproof store."""

from dataclasses import asdict

import click

from phoneproof.cli.options import debug_option, ends_well, json_option
from phoneproof.cli.toolchain import ExactCommands


@click.group(cls=ExactCommands, short_help="Show and prune the store of finished work.")
def command() -> None:
    """Builds, sample sets, ranges and reference outputs are kept for all runs of this user."""


@command.command(name="list")
@json_option
@debug_option
@ends_well
def list_entries(as_json: bool) -> int:
    """List what the store holds: managed environments, then entries, least recently used first."""
    from phoneproof.builds.store import Store, default_store
    from phoneproof.cli.json_text import json_text
    from phoneproof.report.units import bytes_text, counted

    store = Store(default_store())
    entries = (*store.environments(), *store.entries())
    if as_json:
        click.echo(json_text({"store": store.root, "entries": [asdict(entry) for entry in entries]}))
        return 0
    for entry in entries:
        name = entry.key if entry.kind == "toolchain" else entry.key[:16]
        click.echo(f"{entry.kind:11} {name}  {bytes_text(entry.size_bytes)}")
    total = bytes_text(sum(entry.size_bytes for entry in entries))
    click.echo(f"{counted(len(entries), 'entry', 'entries')}, {total}, in {store.root}")
    return 0


@command.command()
@click.option("--keep-gb", type=click.FloatRange(min=0), required=True, help="Most that is left, in GB.")
@click.option("--unused-days", type=click.FloatRange(min=0), default=0.0, help="Spare what was used since.")
@json_option
@debug_option
@ends_well
def prune(keep_gb: float, unused_days: float, as_json: bool) -> int:
    """Remove the least recently used entries. Runs keep their own builds."""
    from phoneproof.builds.store import Store, default_store, storage_errors
    from phoneproof.cli.json_text import json_text
    from phoneproof.report.units import bytes_text, counted

    store = Store(default_store())
    with storage_errors(store.root):
        removed = store.prune(int(keep_gb * 1e9), unused_days * 86_400)
    if as_json:
        click.echo(json_text({"removed": [asdict(entry) for entry in removed]}))
    else:
        freed = bytes_text(sum(entry.size_bytes for entry in removed))
        click.echo(f"Removed {counted(len(removed), 'entry', 'entries')}, {freed}.")
    return 0
