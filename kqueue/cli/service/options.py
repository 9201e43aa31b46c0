"""What the subcommands of `kqueue service` share: where they work, and how they make changes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

from kqueue.cli.service.conffiles import Change, apply

F = TypeVar("F", bound=Callable[..., Any])
SYSTEM = Path("/")


def root_option(command: F) -> F:
    """Add ``--root DIR``, as the argument `root`."""
    return click.option(
        "--root",
        type=click.Path(file_okay=False, path_type=Path),
        default=SYSTEM,
        metavar="DIR",
        help="Work on the files below DIR, as of an image, and call no command of systemd.",
    )(command)


def executable_option(command: F) -> F:
    """Add ``--executable PATH``, as the argument `executable`."""
    return click.option(
        "--executable", metavar="PATH", help="The kqueue that the service runs; by default the one beside this Python."
    )(command)


def dry_run_option(command: F) -> F:
    """Add ``--dry-run``, as the argument `dry_run`."""
    return click.option("--dry-run", is_flag=True, help="Print what would be done, and do nothing.")(command)


def check_rights(root: Path, *, dry_run: bool) -> None:
    """Raises ClickException: only root may change the system itself."""
    if root == SYSTEM and not dry_run and os.geteuid() != 0:
        raise click.ClickException("root is needed: use sudo, or --dry-run to see what it would do, or --root DIR")


def make_changes(changes: Iterable[Change], *, dry_run: bool) -> None:
    """Make the changes and print a line for each. Raises ClickException: one can't be made."""
    for change in changes:
        verb = "remove" if change.text is None else "write"
        click.echo(f"{verb:8} {change.path}  ({change.reason})")
        if not dry_run:
            try:
                apply(change)
            except OSError as error:
                raise click.ClickException(f"can't {verb} {change.path}: {error.strerror}") from None
