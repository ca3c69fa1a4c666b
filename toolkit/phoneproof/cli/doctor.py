"""phoneproof doctor."""

from dataclasses import asdict

import click

from phoneproof.cli.options import debug_option, ends_well, json_option


@click.command(short_help="Say what is usable here, and what mends the rest.")
@click.option("--deep", is_flag=True, help="Import each toolchain and runtime in a process of its own.")
@json_option
@debug_option
@ends_well
def command(deep: bool, as_json: bool) -> int:
    """Say of each toolchain and runtime whether it is usable, its version and the tested one."""
    from rich.markup import escape
    from rich.table import Table

    from phoneproof.builds.store import Store, default_store
    from phoneproof.cli.json_text import json_text
    from phoneproof.cli.wide_console import wide_console
    from phoneproof.runs.health import examine

    store = Store(default_store())
    parts = examine(store, deep)
    if as_json:
        click.echo(json_text({"store": store.root, "parts": [asdict(part) for part in parts]}))
    else:
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("what", no_wrap=True)
        table.add_column("usable", no_wrap=True)
        for column in ("version", "tested", "mend"):
            table.add_column(column, overflow="fold")
        for part in parts:
            usable = _usable(part.usable, part.absent)
            mend = "" if part.usable else f"{part.why or ''} {part.mend or ''}".strip()
            name = escape(f"{part.kind} {part.name}")
            table.add_row(name, usable, escape(part.version or "-"), escape(part.tested or "-"), escape(mend))
        console = wide_console()
        console.print(table)
        console.print(f"store: {escape(str(store.root))}", soft_wrap=True)
    return 0 if all(part.usable or part.absent for part in parts) else 3


def _usable(usable: bool, absent: bool) -> str:
    if usable:
        return "[green]yes[/green]"
    return "not installed" if absent else "[bold red]no[/bold red]"
