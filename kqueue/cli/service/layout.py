"""The files of the service: where they are, and their texts."""

from __future__ import annotations

import re
import sys
from importlib import resources
from pathlib import Path, PurePosixPath
from string import Template
from typing import NamedTuple

import click

from kqueue.cli.service import files

UNIT = "kqueue.service"
SETTINGS = "server.properties"
TARGETS = {
    UNIT: "etc/systemd/system/kqueue.service",
    "sysusers.conf": "etc/sysusers.d/kqueue.conf",
    "tmpfiles.conf": "etc/tmpfiles.d/kqueue.conf",
    SETTINGS: "etc/kqueue/server.properties",
}
"""By the name of its text: each file's path below the root."""
DATA = "var/lib/kqueue"
RECORD = "etc/kqueue/.installed"
HIDDEN = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")
_EXECUTABLE = re.compile(r"/[\w./+-]+\Z", re.ASCII)


class ServiceFile(NamedTuple):
    """One of the files. `name`: of its text. `path`: relative to the root. `text`: its content."""

    name: str
    path: str
    text: str

    @property
    def is_settings(self) -> bool:
        """Whether it is the user's to change, and stays at an uninstall."""
        return self.name == SETTINGS


def service_files(executable: str) -> list[ServiceFile]:
    """Return all files of the service.

    Args: executable: the path of `kqueue` for the unit.
    """
    return [ServiceFile(name, path, _text(name, executable)) for name, path in TARGETS.items()]


def _text(name: str, executable: str) -> str:
    return Template((resources.files(files) / name).read_text(encoding="utf-8")).substitute(executable=executable)


def checked_executable(given: str | None) -> str:
    """Return the path of `kqueue` for the unit.

    Args: given: None: that beside this Python.
    Raises: ClickException: the unit could not run it.
    """
    executable = given or str(Path(sys.executable).with_name("kqueue"))
    if not _EXECUTABLE.match(executable) or ".." in PurePosixPath(executable).parts:
        raise click.ClickException(
            f"{executable!r} can't be in a unit: expected an absolute path of letters, digits and ./+-_"
        )
    for folder in HIDDEN:
        if PurePosixPath(executable).is_relative_to(folder):
            raise click.ClickException(
                f"{executable} is in {folder}, which the service can't see: install kqueue elsewhere, "
                "as by python3 -m venv /opt/kqueue, or name another one by --executable"
            )
    if given is None and not Path(executable).is_file():
        raise click.ClickException(f"{executable} is not there: name the kqueue to run by --executable PATH")
    return executable
