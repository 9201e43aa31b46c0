"""The options of values: what the source, and `ingest`, take."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kqueue.base.errors import SettingError
from kqueue.config.tls_client import TlsClientSettings, client_context
from kqueue.config.tls_properties import tls_client_settings
from kqueue.schema_registry.rest_client import RegistrySettings
from kqueue.spark.errors import OptionError
from kqueue.spark.offsets import parse_assigned
from kqueue.spark.options import Option, nonempty, one_of
from kqueue.spark.value_formats.contract import FORMATS, ValueSettings

NONE = "none"
REGISTRY = "valueSchemaRegistry"

FAILFAST, PERMISSIVE = "failfast", "permissive"
CA_BYTES_MAX = 1024 * 1024


def _url(text: str, option: str) -> str:
    parts = urlsplit(text.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise OptionError(f"{option}: expected a URL such as https://host:8081")
    if parts.username is not None or parts.password is not None:
        raise OptionError(f"{option}: name the user by {option}User and {option}Password, which are not shown")
    return text.strip()


VALUE_OPTIONS = (
    Option(
        "valueFormat",
        one_of(NONE, *FORMATS),
        NONE,
        "both",
        "avro, protobuf, json-schema: value is a struct with the fields of a schema; none: bytes.",
    ),
    Option("valueSchema", nonempty, None, "both", "The schema by which values are read: its text, or a file."),
    Option("valueMessage", nonempty, None, "both", "With protobuf: the message, by its full name; else the first one."),
    Option(
        "valueSchemaRegistry",
        _url,
        None,
        "both",
        "The URL of a registry: values have its frame before them, and its newest schema counts without valueSchema.",
    ),
    Option("valueSchemaSubject", nonempty, None, "both", "Whose newest schema; without: the topic's name and -value."),
    Option("valueSchemaRegistryUser", nonempty, None, "both", "Who asks the registry."),
    Option("valueSchemaRegistryPassword", nonempty, None, "both", "The password of that user."),
    Option("valueSchemaRegistryToken", nonempty, None, "both", "A bearer token instead of user and password."),
    Option(
        "valueSchemaRegistryCa", nonempty, None, "both", "Whom to trust: PEM text, or a file, which the driver reads."
    ),
    Option(
        "valueMode",
        one_of(FAILFAST, PERMISSIVE),
        FAILFAST,
        "both",
        "Wrong values fail the query; or permissive: they are null, with the columns valueError and valueBytes.",
    ),
)


def value_settings(given: Mapping[str, str]) -> ValueSettings | None:
    """Return what the options say of values; None: they stay bytes.

    Args:
        given: all options of the source, with names in any case.
    Raises: OptionError.
    """
    values = _values(given)
    format = values.pop("valueFormat", NONE)
    if format == NONE:
        if values:
            raise OptionError(f"{next(iter(values))} needs valueFormat: {', '.join(FORMATS)}")
        return None
    if "valueMessage" in values and format != "protobuf":
        raise OptionError("valueMessage is for valueFormat=protobuf")
    registry = _registry(values)
    if registry is None and "valueSchema" not in values:
        raise OptionError("valueFormat needs valueSchema, a schema's text or file, or valueSchemaRegistry, a URL")
    subject = values.get("valueSchemaSubject")
    if registry is not None and "valueSchema" not in values and subject is None:
        subject = f"{_only_topic({name.lower(): str(value) for name, value in given.items()})}-value"
    return ValueSettings(
        format,
        values.get("valueSchema"),
        registry,
        subject,
        values.get("valueMessage"),
        values.get("valueMode") == PERMISSIVE,
    )


def registry_settings(given: Mapping[str, str]) -> RegistrySettings | None:
    """Return the registry that options name; None: they name none. Raises: OptionError."""
    return _registry(_values(given))


def _values(given: Mapping[str, str]) -> dict[str, Any]:
    """Return the options of values that are among `given`, parsed."""
    lower = {name.lower(): str(value) for name, value in given.items()}
    return {
        option.name: option.parse(lower[option.name.lower()], option.name)
        for option in VALUE_OPTIONS
        if option.name.lower() in lower
    }


def _registry(values: Mapping[str, str]) -> RegistrySettings | None:
    if REGISTRY not in values:
        for name in values:
            if name.startswith((REGISTRY, "valueSchemaSubject")):
                raise OptionError(f"{name} needs {REGISTRY}, the URL")
        return None
    user, password, token, ca = (values.get(REGISTRY + part) for part in ("User", "Password", "Token", "Ca"))
    if (user is None) != (password is None):
        raise OptionError(f"{REGISTRY}User and {REGISTRY}Password go together")
    if token is not None and user is not None:
        raise OptionError(f"{REGISTRY}Token and {REGISTRY}User contradict each other: give one of them")
    return RegistrySettings(values[REGISTRY], user, password, token, None if ca is None else _trusting(ca))


def _trusting(ca: str) -> TlsClientSettings:
    """Return TLS that trusts PEM certificates, whose text goes to the executors."""
    option = f"{REGISTRY}Ca"
    try:
        if "-----BEGIN" not in ca:
            with Path(ca).expanduser().open(encoding="ascii") as file:
                ca = file.read(CA_BYTES_MAX)
        settings = tls_client_settings({"ssl.truststore.type": "PEM", "ssl.truststore.certificates": ca})
        client_context(settings)
    except OSError as error:
        raise OptionError(f"{option} can't be read: {error.strerror}") from None
    except (SettingError, ValueError) as error:
        raise OptionError(f"{option}: {error}") from None
    return settings


def _only_topic(given: Mapping[str, str]) -> str:
    """Return the topic that is read. Raises: OptionError: there may be several."""
    topics = [name.strip() for name in given.get("subscribe", "").split(",") if name.strip()]
    if not topics and "assign" in given:
        topics = list(dict.fromkeys(one.topic for one in parse_assigned(given["assign"], "assign")))
    if len(topics) != 1:
        raise OptionError("name valueSchemaSubject: only of one topic it is the topic's name and -value")
    return topics[0]


def without_values(given: Mapping[str, str]) -> dict[str, str]:
    """Return the options without those of values."""
    names = {option.name.lower() for option in VALUE_OPTIONS}
    return {name: value for name, value in given.items() if name.lower() not in names}
