"""`kqueue service show`: prints the files that an installation writes."""

from __future__ import annotations

import click

from kqueue.cli.output import output_option, print_json
from kqueue.cli.service.layout import TARGETS, checked_executable, service_files
from kqueue.cli.service.options import executable_option


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(TARGETS)))
@executable_option
@output_option
def show(names: tuple[str, ...], executable: str | None, as_json: bool) -> None:
    """Print the files that install writes, each below a line with its path; or those of NAMES.

    \b
      kqueue service show
      kqueue service show server.properties
      kqueue service show kqueue.service --executable /opt/kqueue/bin/kqueue
    """
    files = [file for file in service_files(checked_executable(executable)) if not names or file.name in names]
    if as_json:
        print_json({f"/{file.path}": file.text for file in files})
        return
    if len(files) == 1:
        click.echo(files[0].text, nl=False)
        return
    click.echo("\n".join(f"# /{file.path}\n{file.text}" for file in files), nl=False)
