"""Addresses of PostgreSQL stores: libpq's connection URIs, with the name of kqueue's schema."""

from __future__ import annotations

import re
from typing import NamedTuple

import psycopg
from psycopg.conninfo import conninfo_to_dict

SCHEMES = ("postgresql://", "postgres://")
DEFAULT_SCHEMA = "kqueue"
ADDRESS_LENGTH_MAX = 4096
CONNECT_TIMEOUT_S = 5
PASSWORD_HINT = "put it into kqueue.postgres.password, PGPASSWORD or the file that passfile or PGPASSFILE names"
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,39}")
_PASSWORDS = re.compile(r"[?&](ssl)?password=", re.IGNORECASE)
_WRITABLE = ("read-write", "primary")
_DEFAULTS: dict[str, str] = {
    "connect_timeout": str(CONNECT_TIMEOUT_S),
    "application_name": "kqueue",
    "target_session_attrs": "read-write",
}


class PostgresAddress(NamedTuple):
    """A parsed address.

    Attributes:
        parameters: libpq's connection parameters by name, without a password.
        schema: of kqueue's tables: a lower-case name of up to 40 characters.
        shown: servers and database, for messages.
    """

    parameters: dict[str, str]
    schema: str
    shown: str


def parse_postgres_address(text: str) -> PostgresAddress:
    """Parse ``postgresql://[USER@]HOST[:PORT][,...]/DATABASE[?schema=NAME&sslmode=...]``.

    The parameters after the question mark are libpq's, and `schema`.

    Raises: ValueError: it is none, has a password, or asks for a server that can't be written. The
        message never has a password.
    """
    if len(text) > ADDRESS_LENGTH_MAX:
        raise ValueError(f"an address of PostgreSQL has at most {ADDRESS_LENGTH_MAX} characters, found {len(text)}")
    scheme = next((one for one in SCHEMES if text.startswith(one)), None)
    if scheme is None:
        raise ValueError("expected postgresql://[USER@]HOST[:PORT][,HOST...]/DATABASE[?schema=NAME&sslmode=...]")
    # Before libpq parses it, whose messages quote what it does not understand. With an unescaped
    # slash or question mark, a password would be a part of the host.
    if ":" in text.removeprefix(scheme).rpartition("@")[0] or _PASSWORDS.search(text):
        raise ValueError(f"the address has a password, which settings would show: {PASSWORD_HINT}")
    place, _, query = text.partition("?")
    options = [option for option in query.split("&") if option]
    schemas = [option.removeprefix("schema=") for option in options if option.startswith("schema=")]
    options = [option for option in options if not option.startswith("schema=")]
    schema = schemas[-1] if schemas else DEFAULT_SCHEMA
    if not _SCHEMA.fullmatch(schema) or schema.startswith("pg_"):
        raise ValueError(
            f"schema={schema[:80]!r} is no name for kqueue's schema: expected up to 40 of a-z, 0-9 and _, "
            "not beginning with a digit or with pg_"
        )
    try:
        given = conninfo_to_dict(place + ("?" + "&".join(options) if options else ""))
    except psycopg.Error as error:
        raise ValueError(f"no address of PostgreSQL: {error}") from None
    if given.keys() & {"password", "sslpassword"}:
        raise ValueError(f"the address has a password, which settings would show: {PASSWORD_HINT}")
    parameters = _DEFAULTS | {name: str(value) for name, value in given.items() if value is not None}
    if parameters["target_session_attrs"] not in _WRITABLE:
        raise ValueError(
            f"target_session_attrs={parameters['target_session_attrs']}: a store has to be written to; expected one "
            f"of {', '.join(_WRITABLE)}"
        )
    parameters["client_encoding"] = "UTF8"
    return PostgresAddress(parameters, schema, _shown(parameters))


def _shown(parameters: dict[str, str]) -> str:
    hosts = (parameters.get("host") or parameters.get("hostaddr") or "the default socket").split(",")
    ports = (parameters.get("port") or "5432").split(",")
    ports = ports * len(hosts) if len(ports) == 1 else ports
    servers = ",".join(f"{host}:{port}" for host, port in zip(hosts, ports, strict=False))
    return f"{servers}/{parameters.get('dbname', '')}"
