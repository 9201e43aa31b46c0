"""`kqueue service uninstall`: stops the service and removes its files."""

from __future__ import annotations

from pathlib import Path

import click

from kqueue.cli.service import systemd
from kqueue.cli.service.conffiles import uninstall_changes
from kqueue.cli.service.layout import DATA, TARGETS, UNIT, service_files
from kqueue.cli.service.options import SYSTEM, check_rights, dry_run_option, make_changes, root_option
from kqueue.cli.service.unit import installed_executable


@click.command()
@click.option("--purge", is_flag=True, help="Also remove the settings, and files that were edited.")
@root_option
@dry_run_option
def uninstall(purge: bool, root: Path, dry_run: bool) -> None:
    """Stop the service and remove its files. Data are never removed; settings only by --purge.

    \b
      sudo /opt/kqueue/bin/kqueue service uninstall
      sudo /opt/kqueue/bin/kqueue service uninstall --purge
      kqueue service uninstall --dry-run

    The user kqueue stays too, as it owns the data.
    """
    check_rights(root, dry_run=dry_run)
    acts = root == SYSTEM and not dry_run and systemd.is_running()
    if acts and (root / TARGETS[UNIT]).exists():
        systemd.call("systemctl", "disable", "--now", UNIT)
    changes = uninstall_changes(root, service_files(installed_executable(root)), purge=purge)
    make_changes(changes, dry_run=dry_run)
    if not changes:
        click.echo("nothing is installed")
    if acts:
        systemd.call("systemctl", "daemon-reload")
    removed = {change.path for change in changes if change.text is None}
    for path in (*TARGETS.values(), DATA):
        if (root / path).exists() and root / path not in removed:
            click.echo(f"kept     {root / path}")
