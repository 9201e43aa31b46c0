"""Finds the reader's schema on the driver: a text, a file, or the newest one of a registry."""

from __future__ import annotations

import re
from pathlib import Path

from kqueue.spark.errors import OptionError
from kqueue.spark.value_formats.contract import SCHEMA_BYTES_MAX, SchemaText, ValueSettings
from kqueue.spark.value_formats.decoder import ValueSchema
from kqueue.spark.value_formats.registry import Registry


def find_schema(settings: ValueSettings) -> ValueSchema:
    """Return the schema by which values are read; blocks.

    Raises: OptionError: a file can't be read. SchemaRefused: it is of no use, or the registry has
        none. RegistryFailed, ExtraNeeded.
    """
    if settings.schema is not None:
        text = SchemaText(schema_text(settings.schema))
    else:
        assert settings.registry is not None
        assert settings.subject is not None
        text = Registry(settings.registry, settings.format).newest(settings.subject)
    found = ValueSchema(settings.format, text, settings.message, settings.registry, settings.permissive)
    found.reader()
    return found


def schema_text(given: str) -> str:
    """Return the text of a schema, or that of the file that `given` names. Raises: OptionError."""
    if re.match(r"\s*[\[{\"]", given) or "\n" in given or ";" in given:
        return given
    try:
        with Path(given).expanduser().open("rb") as file:
            data = file.read(SCHEMA_BYTES_MAX + 1)
    except OSError as error:
        raise OptionError(f"valueSchema: {given[:200]!r} is no schema, and as a file: {error.strerror}") from None
    if len(data) > SCHEMA_BYTES_MAX:
        raise OptionError(f"valueSchema: {given} has more than {SCHEMA_BYTES_MAX:,} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise OptionError(f"valueSchema: {given} is not UTF-8 at byte {error.start}") from None
