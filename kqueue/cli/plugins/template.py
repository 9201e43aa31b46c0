"""Templates of `kqueue plugins new`: renders a whole distribution from the texts in `templates/`.

Each text is one file of the new distribution, with `string.Template` placeholders for the names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib import resources
from string import Template
from typing import NamedTuple

from kqueue import __version__
from kqueue.cli.plugins import templates
from kqueue.config.plugins import CONTRACTS

NAME_LENGTH_MAX = 30
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*\Z", re.ASCII)
_AUTHOR = re.compile(r"\s*(?P<name>[^<>]*?)\s*(?:<(?P<email>[^<>@\s]+@[^<>@\s]+)>)?\s*\Z")


class Kind(NamedTuple):
    """A kind of plugin that `kqueue plugins new` can write.

    Attributes:
        name: on the command line, in `CONTRACTS`, and prefix of the template files.
        prefix: of distributions, e.g. ``kqueue-codec``. suffix: of the class.
        target: object that the entry point names; None: the class.
        summary: of the distribution, in its pyproject.toml.
        test_dependencies: what its test needs beside pytest and kqueue.
    """

    name: str
    prefix: str
    suffix: str
    target: str | None
    summary: str
    dependencies: tuple[str, ...] = ()
    test_dependencies: tuple[str, ...] = ()


KINDS = {
    kind.name: kind
    for kind in (
        Kind("codec", "kqueue-codec", "Codec", "CODEC", "A compression codec for kqueue."),
        Kind("partitioner", "kqueue-partitioner", "Partitioner", None, "A partitioner for kqueue."),
        Kind(
            "assignor",
            "kqueue-assignor",
            "Assignor",
            None,
            "A server-side assignor for kqueue.",
            test_dependencies=("confluent-kafka>=2.16",),
        ),
        Kind("cleanup-policy", "kqueue-cleanup", "Policy", "POLICY", "A cleanup policy for kqueue."),
        Kind("storage", "kqueue-storage", "Storage", "open_storage", "A storage for kqueue."),
        Kind("metadata-store", "kqueue-metadata", "Store", "open_store", "A metadata store for kqueue."),
        Kind("authorizer", "kqueue-authorizer", "Authorizer", None, "An authorizer for kqueue."),
        Kind("tier-store", "kqueue-tier", "TierStore", "open_store", "An object store for kqueue's tiered storage."),
        Kind("command", "kqueue-command", "", "command", "A command for kqueue's command line.", ("click>=8.1",)),
    )
}


def check_name(name: str) -> str:
    """Return `name` if a plugin can have it. Raises: ValueError: with the rules for names."""
    if len(name) > NAME_LENGTH_MAX or not _NAME.match(name):
        raise ValueError(
            f"{name!r} can't be a plugin's name: it begins with a small letter and has small letters, digits and "
            "single hyphens, "
            f"{NAME_LENGTH_MAX} characters at most, as in by-country"
        )
    return name


def parse_author(text: str) -> dict[str, str]:
    """Return name and email of ``Ada Lovelace <ada@example.org>``; either part may be missing.

    Raises: ValueError: with the expected form.
    """
    match = _AUTHOR.match(text)
    parts = {key: part for key, part in match.groupdict().items() if part} if match else {}
    if not parts or not text.isprintable():
        raise ValueError(f"{text!r} is no author: write Ada Lovelace, or Ada Lovelace <ada@example.org>")
    return parts


def distribution_name(kind: Kind, name: str) -> str:
    """Return the distribution's name, also its folder's: ``kqueue-partitioner-by-country``."""
    return f"{kind.prefix}-{name}"


def module_name(kind: Kind, name: str) -> str:
    """Return the module's name: ``kqueue_partitioner_by_country``."""
    return distribution_name(kind, name).replace("-", "_")


def group_of(kind: Kind) -> str:
    """Return the entry-point group: ``kqueue.partitioners``."""
    (group,) = (contract.group for contract in CONTRACTS if contract.kind == kind.name)
    return group


def render(kind: Kind, name: str, author: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the files of a new distribution: texts by path, with "/" between folders."""
    module = module_name(kind, name)
    values = _values(kind, name, author)
    return {
        "pyproject.toml": _text("pyproject.toml.txt").substitute(values),
        "README.md": _text(f"{kind.name}-README.md.txt").substitute(values),
        f"{module}.py": _text(f"{kind.name}-module.py.txt").substitute(values),
        f"tests/test_{module}.py": _text(f"{kind.name}-test.py.txt").substitute(values),
    }


def _values(kind: Kind, name: str, author: Mapping[str, str] | None) -> dict[str, str]:
    stem = "".join(part.capitalize() for part in name.split("-"))
    return {
        "name": name,
        "distribution": distribution_name(kind, name),
        "module": module_name(kind, name),
        "class_name": stem + kind.suffix,
        "file_class": f"{stem}File",
        "target": kind.target or stem + kind.suffix,
        "group": group_of(kind),
        "summary": kind.summary,
        "dependencies": "".join(f", {_toml(text)}" for text in kind.dependencies),
        "test_dependencies": "".join(f", {_toml(text)}" for text in kind.test_dependencies),
        "authors": f"authors = [{{ {', '.join(f'{key} = {_toml(text)}' for key, text in author.items())} }}]\n"
        if author
        else "",
        "kqueue_version": ".".join(__version__.split(".")[:2]),
    }


def _toml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _text(name: str) -> Template:
    return Template(resources.files(templates).joinpath(name).read_text(encoding="utf-8"))
