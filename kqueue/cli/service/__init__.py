"""`kqueue service`: a broker as a service of systemd; one module per subcommand."""

from __future__ import annotations

import click

from kqueue.cli.lazy import LazyCommand, LazyGroup

COMMANDS = {
    "install": LazyCommand(
        "kqueue.cli.service.install:install", "Write unit, user and settings, and have systemd read them."
    ),
    "status": LazyCommand("kqueue.cli.service.status:status", "Show which files are there, and whether it runs."),
    "show": LazyCommand("kqueue.cli.service.show:show", "Print the files that install writes."),
    "uninstall": LazyCommand(
        "kqueue.cli.service.uninstall:uninstall", "Stop the service and remove its files; data and settings stay."
    ),
}
EXAMPLES = """\b
  sudo /opt/kqueue/bin/kqueue service install
  kqueue service status
  kqueue service show kqueue.service
  sudo /opt/kqueue/bin/kqueue service uninstall"""


@click.group(cls=LazyGroup, table=COMMANDS, entry_points="kqueue.service_commands", epilog=EXAMPLES)
def service() -> None:
    """Run a broker as a service of systemd, as a package of Debian would.

    \b
      kqueue service install --dry-run

    The service has a user of its own, settings in /etc/kqueue/server.properties, data in
    /var/lib/kqueue, and may write nowhere else.
    """
