"""The options of a command that decodes values by a schema."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from kqueue.base.errors import KqueueError
from kqueue.spark.value_formats.options import REGISTRY, value_settings

F = TypeVar("F", bound=Callable[..., Any])
OPTIONS = (
    (
        "format",
        "valueFormat",
        "FORMAT",
        "Of values: avro, protobuf or json-schema.  [default: JSON objects]",
    ),
    ("schema", "valueSchema", "FILE", "The schema by which values are read."),
    ("message", "valueMessage", "NAME", "With protobuf: the message, by its full name."),
    ("registry", REGISTRY, "URL", "A schema registry; its newest schema counts without --value-schema."),
    ("subject", "valueSchemaSubject", "NAME", "Whose newest schema.  [default: TOPIC-value]"),
    ("registry-ca", f"{REGISTRY}Ca", "FILE", "Whom to trust as the registry, in PEM."),
)
"""The options after ``--value-``, with those of the source."""
SECRETS = {
    "KQUEUE_REGISTRY_USER": f"{REGISTRY}User",
    "KQUEUE_REGISTRY_PASSWORD": f"{REGISTRY}Password",
    "KQUEUE_REGISTRY_TOKEN": f"{REGISTRY}Token",
}
"""Variables of the environment: other users of a machine see the arguments of commands."""


def value_options(command: F) -> F:
    """Add ``--value-format`` and what belongs to it to a command, as its argument `values`: options
    of the source.
    """

    @functools.wraps(command)
    def with_values(*args: Any, **given: Any) -> Any:
        values = {option: given.pop(_argument(name)) for name, option, _, _ in OPTIONS}
        return command(*args, values={name: text for name, text in values.items() if text is not None}, **given)

    wrapped: Any = with_values
    for name, _, metavar, words in reversed(OPTIONS):
        wrapped = click.option(f"--value-{name}", _argument(name), metavar=metavar, help=words)(wrapped)
    return wrapped  # type: ignore[no-any-return]


def source_values(source: dict[str, str], values: dict[str, str]) -> dict[str, str]:
    """Return the options of the source with those of values, and the secrets of the environment.

    Raises: UsageError: they are wrong.
    """
    if REGISTRY in values:
        values = values | {option: os.environ[name] for name, option in SECRETS.items() if os.environ.get(name)}
    try:
        value_settings(source | values)
    except KqueueError as error:
        raise click.UsageError(str(error)) from None
    return source | values


def _argument(name: str) -> str:
    return f"value_{name.replace('-', '_')}"
