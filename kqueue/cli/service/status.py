"""`kqueue service status`: which files of the service are there, and whether it runs."""

from __future__ import annotations

from pathlib import Path

import click

from kqueue.cli.output import columns, output_option, print_json
from kqueue.cli.service import systemd
from kqueue.cli.service.conffiles import State, read_record, state_of
from kqueue.cli.service.layout import UNIT, service_files
from kqueue.cli.service.options import SYSTEM, root_option
from kqueue.cli.service.unit import installed_executable


@click.command()
@root_option
@output_option
@click.pass_context
def status(ctx: click.Context, root: Path, as_json: bool) -> None:
    """Show which files of the service are there, and whether it runs.

    \b
      kqueue service status
      kqueue service status --root image

    Exit status 0: all files are there, and the service runs (with --root: the files alone). 1: not.
    A file that was edited counts as there.
    """
    try:
        record = read_record(root)
        states = {file.path: state_of(root, file, record) for file in service_files(installed_executable(root))}
    except PermissionError as error:
        raise click.ClickException(f"{error.filename} can't be read: root is needed to see the settings") from None
    shown: dict[str, str] = {str(root / path): state.value for path, state in states.items()}
    active = systemd.answer("systemctl", "is-active", UNIT) if root == SYSTEM else None
    enabled = systemd.answer("systemctl", "is-enabled", UNIT) if root == SYSTEM else None
    if as_json:
        print_json({"files": shown, "active": active, "enabled": enabled})
    else:
        rows = list(shown.items())
        if active is not None and enabled is not None:
            rows.append((UNIT, f"{active}, {enabled}"))
        click.echo(columns(("FILE", "STATE"), rows))
    ctx.exit(0 if State.MISSING not in states.values() and active in (None, "active") else 1)
