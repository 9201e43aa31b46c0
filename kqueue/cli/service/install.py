"""`kqueue service install`: writes the files of the service."""

from __future__ import annotations

from pathlib import Path

import click

from kqueue.cli.service import systemd
from kqueue.cli.service.conffiles import install_changes
from kqueue.cli.service.layout import TARGETS, UNIT, checked_executable, service_files
from kqueue.cli.service.options import (
    SYSTEM,
    check_rights,
    dry_run_option,
    executable_option,
    make_changes,
    root_option,
)


@click.command()
@executable_option
@click.option("--now", is_flag=True, help="Also start it, now and at each boot.")
@root_option
@dry_run_option
def install(executable: str | None, now: bool, root: Path, dry_run: bool) -> None:
    """Write unit, user and settings of the service, and have systemd read them.

    \b
      sudo /opt/kqueue/bin/kqueue service install
      sudo /opt/kqueue/bin/kqueue service install --now
      kqueue service install --dry-run
      kqueue service install --root image --executable /opt/kqueue/bin/kqueue

    A second call brings what is outdated up to date. A file that you have edited stays as it is: a
    new version of it is written beside it, as server.properties.new. It does not start or restart
    the broker, unless --now says so.
    """
    check_rights(root, dry_run=dry_run)
    files = service_files(checked_executable(executable))
    changes = install_changes(root, files)
    make_changes(changes, dry_run=dry_run)
    if not changes:
        click.echo("all files are there")
    if dry_run or root != SYSTEM:
        return
    systemd.call("systemd-sysusers", f"/{TARGETS['sysusers.conf']}")
    systemd.call("systemd-tmpfiles", "--create", f"/{TARGETS['tmpfiles.conf']}")
    if not systemd.is_running():
        click.echo("systemd does not run this machine: start the service once it does")
        return
    systemd.call("systemctl", "daemon-reload")
    if now:
        systemd.call("systemctl", "enable", "--now", UNIT)
    else:
        click.echo("Start it:  systemctl enable --now kqueue")
