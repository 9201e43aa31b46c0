"""`kqueue plugins new`: a distribution to begin with, whose test passes."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from kqueue.base.names import did_you_mean
from kqueue.cli.plugins.inventory import built_in_names
from kqueue.cli.plugins.template import KINDS, Kind, check_name, distribution_name, module_name, parse_author, render


@click.command("new")
@click.argument("kind", metavar="KIND")
@click.argument("name")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where to write it; a new folder here, by the distribution's name, if not given.",
)
@click.option("--author", metavar="TEXT", help="Who made it, for pyproject.toml: 'Ada Lovelace <ada@example.org>'.")
def new(kind: str, name: str, folder: Path | None, author: str | None) -> None:
    """Write a new plugin: a distribution with one small module that works, and a test that passes.

    \b
      kqueue plugins new partitioner by-country
      kqueue plugins new codec fast-gzip --author 'Ada Lovelace <ada@example.org>'
      kqueue plugins new cleanup-policy keep-last --folder ../keep-last

    KIND is codec, partitioner, assignor, cleanup-policy, storage, metadata-store, authorizer,
    tier-store or command. NAME is what settings, topics, URLs and command lines will call it. The
    module does something small; put what you need in its place, and let the test tell whether it
    still keeps its contract.
    """
    chosen = _kind(kind)
    _check_name(chosen, name)
    files = render(chosen, name, _author(author))
    folder = folder or Path(distribution_name(chosen, name))
    _write(folder, files)
    click.echo(_next_steps(chosen, name, folder))


def _kind(text: str) -> Kind:
    kind = KINDS.get(text)
    if kind is None:
        there = ", ".join(KINDS)
        raise click.BadParameter(
            f"no kind of plugin is called {text!r}{did_you_mean(text, KINDS)} (there are: {there})", param_hint="KIND"
        )
    return kind


def _check_name(kind: Kind, name: str) -> None:
    """Raises BadParameter: the name can't be one, or kqueue has something of this name."""
    try:
        check_name(name)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="NAME") from None
    if name in built_in_names(kind.name):
        raise click.BadParameter(
            f"kqueue has a {kind.name} of its own that is called {name!r}; choose another name", param_hint="NAME"
        )


def _author(text: str | None) -> dict[str, str] | None:
    try:
        return parse_author(text) if text is not None else None
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--author") from None


def _write(folder: Path, files: dict[str, str]) -> None:
    """Raises ClickException: the folder holds something, or can't be written."""
    try:
        if folder.exists() and any(folder.iterdir()):
            raise click.ClickException(
                f"{folder} holds something already; name a folder that is empty, or not there, with --folder"
            )
        for path, text in files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"{folder} can't be written: {error.strerror or error}") from None


def _next_steps(kind: Kind, name: str, folder: Path) -> str:
    module = module_name(kind, name)
    return "\n".join(
        (
            f"Wrote {folder}, the {kind.name} {name!r}. Next:",
            "",
            f"  cd {_quoted(folder)}",
            "  pip install -e '.[test]'     # in a virtual environment; kqueue then finds it by its entry point",
            "  pytest                       # passes as it stands",
            "  kqueue plugins               # lists it",
            "",
            f"Then make {module}.py yours; README.md says how it is used.",
        )
    )


def _quoted(folder: Path) -> str:
    return shlex.quote(str(folder))
