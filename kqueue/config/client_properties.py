"""The sources of a command's client properties: a file, and variables of the environment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kqueue.base.errors import SettingError
from kqueue.base.names import did_you_mean
from kqueue.config.client_security import PROPERTIES, ClientSecurity
from kqueue.config.properties import read_file

VARIABLE_PREFIX = "KQUEUE_CLIENT_"


def read_client_properties(path: Path | None, environment: Mapping[str, str]) -> dict[str, str]:
    """Return what a properties file says, and over it the variables: ``KQUEUE_CLIENT_`` and the
    name of a property in upper case, as in ``KQUEUE_CLIENT_SECURITY_PROTOCOL=SSL``.

    Raises: SettingError.
    """
    given = {} if path is None else {name: str(sourced.value) for name, sourced in read_file(path).items()}
    names = {VARIABLE_PREFIX + name.upper().replace(".", "_"): name for name in PROPERTIES}
    for variable, value in environment.items():
        if variable.startswith(VARIABLE_PREFIX):
            if variable not in names:
                raise SettingError(f"no client property belongs to {variable}{did_you_mean(variable, names)}")
            given[names[variable]] = value
    return given


def security_of(properties: Mapping[str, str], path: Path | None) -> ClientSecurity:
    """Return what properties say. `path`: of their file, for messages. Raises: SettingError."""
    try:
        return ClientSecurity.of(properties)
    except SettingError as error:
        raise SettingError(f"{path}: {error}" if path is not None else str(error)) from None
