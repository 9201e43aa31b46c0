"""`kqueue plugins`: list the plugins of this installation, and write new ones; one module per
subcommand.
"""

from __future__ import annotations

import click

from kqueue.cli.lazy import LazyCommand, LazyGroup

DEFAULT = "list"
COMMANDS = {
    "list": LazyCommand(
        "kqueue.cli.plugins.listing:list_plugins", "Show what is there, what failed, and who uses it (the default)."
    ),
    "new": LazyCommand("kqueue.cli.plugins.new:new", "Write a new plugin, with a test that passes."),
}
EXAMPLES = """\b
  kqueue plugins
  kqueue plugins --json
  kqueue plugins new partitioner by-country
  kqueue plugins new --help

A plugin is an installed distribution that names something in one of the entry-point groups kqueue.codecs,
kqueue.partitioners,
kqueue.assignors, kqueue.cleanup_policies, kqueue.storage, kqueue.metadata, kqueue.authorizers and kqueue.commands."""


class PluginsGroup(LazyGroup):
    """Group whose default subcommand is `list`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert `list` where no subcommand is named; options before it belong to `list`."""
        if not args or (args[0].startswith("-") and args[0] not in self.get_help_option_names(ctx)):
            args = [DEFAULT, *args]
        return super().parse_args(ctx, args)


@click.group(cls=PluginsGroup, table=COMMANDS, entry_points="kqueue.plugins_commands", epilog=EXAMPLES)
def plugins() -> None:
    """Show the codecs, partitioners, assignors, cleanup policies, storages, metadata stores and
    authorizers that kqueue finds here, or begin a new one.

    \b
      kqueue plugins
    """
