"""phoneproof toolchain."""

from typing import Any

import click

from phoneproof.cli.options import debug_option, ends_well, json_option


class ExactCommands(click.Group):
    """Sub-commands by their exact names; a near miss is refused with a suggestion."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[Any, Any, list[str]]:
        """See click."""
        from phoneproof.cli.main import refuse_unknown

        refuse_unknown(ctx, args, self.commands)
        return super().resolve_command(ctx, args)


@click.group(cls=ExactCommands, short_help="List and install toolchains.")
def command() -> None:
    """Toolchains convert source models. Each runs in a process of its own, on this interpreter if it has what
    the toolchain needs, else in an environment that `install` makes."""


@command.command(name="list")
@json_option
@debug_option
@ends_well
def list_toolchains(as_json: bool) -> int:
    """List the toolchains and where each would run."""
    from phoneproof.builds.store import default_store
    from phoneproof.cli.json_text import json_text
    from phoneproof.errors import ToolchainError
    from phoneproof.recipes.toolchain_table import TOOLCHAINS
    from phoneproof.workers.environments import environment_of

    rows: list[dict[str, Any]] = []
    for name, toolchain in TOOLCHAINS.items():
        try:
            environment = environment_of(toolchain, default_store())
            where = "managed environment" if environment.managed else "this interpreter"
            rows.append({"name": name, "where": where, "versions": environment.versions})
        except ToolchainError as error:
            rows.append({"name": name, "where": None, "next_step": error.next_step})
    if as_json:
        click.echo(json_text({"toolchains": rows}))
        return 0
    for row in rows:
        click.echo(f"{row['name']}  {row['where'] or row['next_step']}")
    return 0


@command.command()
@click.argument("name")
@json_option
@debug_option
@ends_well
def install(name: str, as_json: bool) -> int:
    """Install toolchain NAME into an environment of its own, with the versions that are tested."""
    import difflib

    from phoneproof.builds.store import Store, default_store, storage_errors
    from phoneproof.cli.json_text import json_text
    from phoneproof.errors import CommandLineError
    from phoneproof.recipes.toolchain_table import TOOLCHAINS
    from phoneproof.workers.environments import install_toolchain

    if name not in TOOLCHAINS:
        near = difflib.get_close_matches(name, TOOLCHAINS, n=1)
        meant = f"Did you mean {near[0]!r}? " if near else ""
        step = f"{meant}Toolchains: {', '.join(TOOLCHAINS)}."
        raise CommandLineError(f"There is no toolchain {name!r}.", where="NAME", next_step=step)
    store = default_store()
    Store(store).open_for_writing()
    with storage_errors(store):
        folder = install_toolchain(TOOLCHAINS[name], store, lambda line: click.echo(line, err=True))
    click.echo(json_text({"name": name, "folder": folder}) if as_json else f"{name} is installed in {folder}")
    return 0
