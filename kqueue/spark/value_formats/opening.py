"""Finds the reader's schema on the driver: a text, a file, or the newest one of a registry."""

from __future__ import annotations

import re
from pathlib import Path

from kqueue.base.errors import ExtraNeeded
from kqueue.base.extras import install_hint
from kqueue.spark.errors import OptionError
from kqueue.spark.value_formats.contract import SCHEMA_BYTES_MAX, FormatName, SchemaText, ValueSettings
from kqueue.spark.value_formats.decoder import ValueSchema
from kqueue.spark.value_formats.registry import Registry


def find_schema(settings: ValueSettings) -> ValueSchema:
    """Return the schema by which values are read; blocks.

    Raises: OptionError: a file can't be read. SchemaRefused: it is of no use, or the registry has
        none. RegistryFailed, ExtraNeeded.
    """
    if settings.schema is not None:
        text = _given(settings.schema, settings.format)
    else:
        assert settings.registry is not None
        assert settings.subject is not None
        text = Registry(settings.registry, settings.format).newest(settings.subject)
        if settings.format == "protobuf":
            text = _descriptors(text, None)
    schema = ValueSchema(settings.format, text, settings.message, settings.registry, settings.permissive)
    schema.reader()
    return schema


def _given(schema: str, format: FormatName) -> SchemaText:
    """Return a schema that is given as text or file; of Protobuf, as descriptors."""
    if format != "protobuf":
        return SchemaText(schema_text(schema))
    if _is_text(schema):
        return _descriptors(SchemaText(schema), None)
    data = _read(schema)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = ""
    if "{" not in text or "\0" in text or text.startswith("\n"):
        return _descriptors(data, None)
    return _descriptors(SchemaText(text), Path(schema).expanduser().parent)


def _descriptors(schema: SchemaText | bytes, folder: Path | None) -> SchemaText:
    try:
        from kqueue.spark.value_formats import protobuf_files
    except ImportError as error:
        raise ExtraNeeded(f"valueFormat=protobuf needs the package {error.name}: {install_hint('schemas')}") from None
    if isinstance(schema, bytes):
        return protobuf_files.from_set(schema)
    return protobuf_files.serialized(schema, folder)


def schema_text(given: str) -> str:
    """Return the text of a schema, or that of the file that `given` names. Raises: OptionError."""
    if _is_text(given):
        return given
    try:
        return _read(given).decode()
    except UnicodeDecodeError as error:
        raise OptionError(f"valueSchema: {given} is not UTF-8 at byte {error.start}") from None


def _is_text(given: str) -> bool:
    return re.match(r"\s*[\[{\"]", given) is not None or "\n" in given or ";" in given


def _read(given: str) -> bytes:
    try:
        with Path(given).expanduser().open("rb") as file:
            data = file.read(SCHEMA_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise OptionError(f"valueSchema: {given[:200]!r} is no schema, and as a file: {reason}") from None
    if len(data) > SCHEMA_BYTES_MAX:
        raise OptionError(f"valueSchema: {given} has more than {SCHEMA_BYTES_MAX:,} bytes")
    return data
