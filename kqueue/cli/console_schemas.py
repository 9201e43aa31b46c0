"""The options of `kqueue console` and `kqueue consume` about schemas of messages."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kqueue.base.errors import KqueueError
from kqueue.cli.connect import require

if TYPE_CHECKING:
    from kqueue.console.messages.schema_values import SchemaSettings
    from kqueue.schema_registry.rest_client import RegistrySettings

F = TypeVar("F", bound=Callable[..., Any])
FORMATS = ("avro", "protobuf", "json-schema")
SECRETS = {"KQUEUE_REGISTRY_USER": "User", "KQUEUE_REGISTRY_PASSWORD": "Password", "KQUEUE_REGISTRY_TOKEN": "Token"}
"""Variables of the environment: other users of a machine see the arguments of commands."""


def schema_options(command: F) -> F:
    """Add the options to a command, as its argument `schemas`: `SchemaSettings`, or None."""

    @click.option(
        "--schema-registry",
        metavar="URL",
        help="Show keys and values in Avro and Protobuf by the schemas of this registry. "
        f"{', '.join(SECRETS)} are variables with its credentials.",
    )
    @click.option("--schema-registry-ca", metavar="FILE", help="Whom to trust as the registry, in PEM.")
    @click.option("--value-format", type=click.Choice(FORMATS), help="The format of --value-schema.")
    @click.option("--value-schema", metavar="FILE", help="A schema by which a reader can have values shown.")
    @click.option("--value-message", metavar="NAME", help="With protobuf: the message, by its full name.")
    @functools.wraps(command)
    def with_schemas(*args: Any, **given: Any) -> Any:
        names = ("schema_registry", "schema_registry_ca", "value_format", "value_schema", "value_message")
        return command(*args, schemas=schema_settings(*(given.pop(name) for name in names)), **given)

    return with_schemas  # type: ignore[return-value]


def registry_options(command: F) -> F:
    """Add the options about a registry to a command, as its argument `schemas`: `SchemaSettings`,
    or None.
    """

    @click.option(
        "--schema-registry",
        metavar="URL",
        help="Decode keys and values by the schemas of this registry. "
        f"{', '.join(SECRETS)} are variables with its credentials.",
    )
    @click.option("--schema-registry-ca", metavar="FILE", help="Whom to trust as the registry, in PEM.")
    @functools.wraps(command)
    def with_registry(*args: Any, **given: Any) -> Any:
        registry, ca = given.pop("schema_registry"), given.pop("schema_registry_ca")
        settings = schema_settings(registry, ca, None, None, None)
        if settings is not None:
            require("msgpack", "console")
        return command(*args, schemas=settings, **given)

    return with_registry  # type: ignore[return-value]


def schema_settings(
    registry: str | None, ca: str | None, format: str | None, schema: str | None, message: str | None
) -> SchemaSettings | None:
    """Return what the options say; None: none is given. Raises: UsageError."""
    if ca is not None and registry is None:
        raise click.UsageError("--schema-registry-ca needs --schema-registry")
    if (schema is None) is not (format is None):
        raise click.UsageError("--value-format and --value-schema belong together")
    if message is not None and format != "protobuf":
        raise click.UsageError("--value-message needs --value-format protobuf")
    if registry is None and schema is None:
        return None
    require("fastavro", "schemas")
    from kqueue.console.messages.schema_values import GivenSchema, SchemaSettings

    settings = None if registry is None else registry_settings_of(registry, ca)
    given = None if schema is None else GivenSchema(format, schema, message)  # type: ignore[arg-type]
    return SchemaSettings(settings, given)


def registry_settings_of(url: str, ca: str | None) -> RegistrySettings:
    """Return a registry's settings, with credentials of the environment. Raises: UsageError.

    Args: ca: a file of authorities; None: those of the system.
    """
    from kqueue.spark.value_formats.options import REGISTRY, registry_settings

    options = {REGISTRY: url}
    options |= {REGISTRY + end: os.environ[name] for name, end in SECRETS.items() if os.environ.get(name)}
    if ca is not None:
        options[REGISTRY + "Ca"] = ca
    try:
        settings = registry_settings(options)
    except KqueueError as error:
        raise click.UsageError(str(error).replace(REGISTRY, "--schema-registry", 1)) from None
    assert settings is not None
    return settings
