"""A click group that imports a subcommand when it runs; `kqueue --help` imports none."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kqueue.base.names import did_you_mean

if TYPE_CHECKING:
    from importlib import metadata


class LazyCommand(NamedTuple):
    """The location of a subcommand (``module:attribute``) and its line in the group's help."""

    target: str
    summary: str

    def load(self) -> click.Command:
        """Import the command."""
        module, _, attribute = self.target.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command


class LazyGroup(click.Group):
    """A group of `LazyCommand`s and of the commands that other distributions add by entry points.

    A built-in name takes precedence. A plugin is imported when its command runs; if that fails, the
    error names its distribution, and every other command still works.
    """

    def __init__(self, *args: object, table: Mapping[str, LazyCommand], entry_points: str, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.table = table
        self.entry_point_group = entry_points

    def plugins(self) -> dict[str, metadata.EntryPoint]:
        """Return the subcommands of other distributions by name, without importing them."""
        from importlib import metadata  # on use: it takes a fifth of the time to the help text

        points = metadata.entry_points(group=self.entry_point_group)
        return {point.name: point for point in points if point.name not in self.table}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the built-in names in their order, then those of plugins."""
        return [*self.table, *sorted(self.plugins())]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command; None if there is none of this name."""
        if cmd_name in self.table:
            return self.table[cmd_name].load()
        point = self.plugins().get(cmd_name)
        return load_plugin(point) if point else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of `args`; an unknown name fails with the nearest one."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            ctx.fail(f"there is no command {name!r}{did_you_mean(name, self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse the arguments, as `invoke` runs the command: ``--help`` prints here."""
        if parent is not None:
            return super().make_context(info_name, args, parent, **extra)
        from kqueue.cli.exit_status import ends_quietly

        with ends_quietly():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; the outermost group turns a Ctrl-C and a closed pipe into a status."""
        if ctx.parent is not None:
            return super().invoke(ctx)
        from kqueue.cli.exit_status import ends_quietly

        with ends_quietly():
            return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of commands from the summaries, without importing them."""
        rows = [(name, command.summary) for name, command in self.table.items()]
        rows += [(name, f"(added by {distribution_of(point)})") for name, point in sorted(self.plugins().items())]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def load_plugin(point: metadata.EntryPoint) -> click.Command:
    """Import the command of another distribution. Raises ClickException: names both and why."""
    try:
        command = point.load()
    except (Exception, SystemExit) as error:  # a plugin may raise anything; the message names its distribution
        reason = f"{type(error).__name__}: {error}"
        raise click.ClickException(
            f"the command {point.name!r} of {distribution_of(point)} failed to load: {reason}"
        ) from None
    if not isinstance(command, click.Command):
        raise click.ClickException(
            f"the command {point.name!r} of {distribution_of(point)} is not a click command: {command!r}"
        )
    return command


def distribution_of(point: metadata.EntryPoint) -> str:
    """Return name and version of the distribution."""
    return f"{point.dist.name} {point.dist.version}" if point.dist else "an unknown distribution"
