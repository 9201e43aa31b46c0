"""Connections of commands: the options of client commands, profiles, TLS and SASL, the wait.

A value comes from the command line, then from the environment, then from the profile in use. A
profile that is not named on the command line is left out with all its properties if an address is
given: the password of one cluster is not sent to another.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, overload

import click
from click.core import ParameterSource

from kqueue.base.addresses import Address, parse_addresses
from kqueue.base.errors import KqueueError, SettingError
from kqueue.cli.profiles import BOOTSTRAP_SERVERS, Profiles, complete_profiles

if TYPE_CHECKING:
    from kqueue.config.client_security import ClientSecurity

DEFAULT_BOOTSTRAP = "localhost:9092"
TIMEOUT_S = 10.0
_ACCESS = "kqueue.client_access"
_PROFILE = "kqueue.profile"
_CONFIG = "kqueue.command_config"
_TIMEOUT = "kqueue.connect_timeout"
_ON_COMMAND_LINE = (ParameterSource.COMMANDLINE, ParameterSource.PROMPT)
F = TypeVar("F", bound=Callable[..., Any])


class ClientAccess(NamedTuple):
    """The way in which a command connects.

    `security`: None: without TLS and SASL. `properties`: Kafka's client properties that say so.
    `timeout_s`: how long the command waits for a broker that does not answer; 0: it tries once.
    """

    security: ClientSecurity | None = None
    properties: Mapping[str, str] = {}
    timeout_s: float = 0.0


class _Given(NamedTuple):
    """The value of an option, and whether it is on the command line."""

    value: Any
    is_explicit: bool


_access_of_process = ClientAccess()
"""That of the last command: threads have no context of click, and a process runs one command."""


@overload
def bootstrap_option(command: F) -> F: ...
@overload
def bootstrap_option(*, waits: bool) -> Callable[[F], F]: ...
def bootstrap_option(command: F | None = None, *, waits: bool = True) -> F | Callable[[F], F]:
    """Add the options of client commands: ``-b/--bootstrap-server``, as the argument `bootstrap`,
    and ``--profile``, ``--command-config`` and ``--timeout``, which `client_access` returns.

    Args:
        waits: False: the command has its own rule for a broker that does not answer, so there is no
            ``--timeout``, and `find_broker` tries once.
    """
    if command is None:
        return lambda command: _with_options(command, waits)
    return _with_options(command, waits)


def _with_options(command: F, waits: bool) -> F:
    if waits:
        command = click.option(
            "--timeout",
            "connect_timeout_s",
            type=click.FloatRange(min=0),
            default=TIMEOUT_S,
            show_default=True,
            envvar="KQUEUE_TIMEOUT",
            show_envvar=True,
            metavar="SECONDS",
            expose_value=False,
            is_eager=True,
            callback=_keep(_TIMEOUT),
            help="How long to wait for a broker that does not answer; 0 tries once.",
        )(command)
    command = click.option(
        "--command-config",
        type=click.Path(path_type=Path, dir_okay=False),  # read by `_resolve`, after --help
        envvar="KQUEUE_COMMAND_CONFIG",
        show_envvar=True,
        expose_value=False,
        is_eager=True,
        callback=_keep(_CONFIG),
        help="File with Kafka's client properties for TLS and SASL: security.protocol, ssl.*, sasl.*. "
        "KQUEUE_CLIENT_SECURITY_PROTOCOL and so on set single ones.",
    )(command)
    command = profile_option(command)
    return click.option(
        "-b",
        "--bootstrap-server",
        "bootstrap",
        metavar="HOST:PORT[,…]",
        default=DEFAULT_BOOTSTRAP,
        envvar="KQUEUE_BOOTSTRAP",
        show_default=True,
        show_envvar=True,
        callback=_resolve,
        help="The broker to talk to; of a cluster, any of its brokers.",
    )(command)


def profile_option(command: F) -> F:
    """Add ``--profile``, which `bootstrap_option` takes into account."""
    return click.option(
        "--profile",
        metavar="NAME",
        envvar="KQUEUE_PROFILE",
        show_envvar=True,
        expose_value=False,
        is_eager=True,
        callback=_keep(_PROFILE),
        shell_complete=complete_profiles,
        help="The address and security of a cluster, stored by `kqueue profile create`.",
    )(command)


def use_profile(context: click.Context, name: str) -> None:
    """Have the client command below this context use a profile, as `--profile` does."""
    context.meta[_PROFILE] = _Given(name, True)


def _keep(key: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    """Return the callback that keeps an option's value for `_resolve`.

    `--profile` is an option of `kqueue` and of its commands; the later one on the command line
    counts.
    """

    def keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        assert parameter.name is not None
        is_explicit = context.get_parameter_source(parameter.name) in _ON_COMMAND_LINE
        before = context.meta.get(key)
        if before is None or is_explicit or not before.is_explicit:
            context.meta[key] = _Given(value, is_explicit)

    return keep


def _resolve(context: click.Context, parameter: click.Parameter, bootstrap: str) -> str:
    """Return the address, and have `client_access` return the rest."""
    global _access_of_process
    source = context.get_parameter_source("bootstrap")
    profile: _Given = context.meta.get(_PROFILE, _Given(None, False))
    config: _Given = context.meta.get(_CONFIG, _Given(None, False))
    timeout: _Given = context.meta.get(_TIMEOUT, _Given(0.0, False))
    is_addressed = source in (*_ON_COMMAND_LINE, ParameterSource.ENVIRONMENT)
    try:
        profiles = Profiles()
        name = profile.value or (None if is_addressed else profiles.current())
        in_use = name if profile.is_explicit or not is_addressed else None
        stored = {} if in_use is None else profiles.read(in_use)
        if BOOTSTRAP_SERVERS in stored and source not in _ON_COMMAND_LINE:
            bootstrap = stored[BOOTSTRAP_SERVERS]
        path: Path | None = config.value
        if in_use is not None and (path is None or (profile.is_explicit and not config.is_explicit)):
            path = profiles.path(in_use)
        security, properties = _read_security(path)
    except (SettingError, KqueueError) as error:
        raise click.BadParameter(str(error), context, param_hint=_hint(path=config.value, profile=profile)) from None
    _access_of_process = context.meta[_ACCESS] = ClientAccess(security, properties, timeout.value)
    return bootstrap


def _hint(path: Path | None, profile: _Given) -> str:
    return "--command-config" if path is not None else "--profile" if profile.value else "the profile in use"


def _read_security(path: Path | None) -> tuple[ClientSecurity | None, Mapping[str, str]]:
    """Return what a file of client properties and the variables say."""
    if path is None and not any(name.startswith("KQUEUE_CLIENT_") for name in os.environ):
        return None, {}
    from kqueue.config.client_properties import read_client_properties, security_of
    from kqueue.security.protocols import SecurityProtocol

    properties = read_client_properties(path, os.environ)
    properties.pop(BOOTSTRAP_SERVERS, None)
    security = security_of(properties, path)
    return (None, {}) if security.protocol is SecurityProtocol.PLAINTEXT else (security, properties)


def client_access() -> ClientAccess:
    """Return how the running command connects, in each of its threads."""
    context = click.get_current_context(silent=True)
    if context is None:
        is_main = threading.current_thread() is threading.main_thread()
        return ClientAccess() if is_main else _access_of_process
    access: ClientAccess = context.meta.get(_ACCESS, ClientAccess())
    return access


def client_security() -> ClientSecurity | None:
    """Return how the running command connects; None: without TLS and SASL."""
    return client_access().security


def client_arguments() -> dict[str, Any]:
    """Return what kafka-python's clients need to connect securely. Raises ClickException."""
    security = client_security()
    if security is None:
        return {}
    from kqueue.config.client_security import kafka_python_arguments

    try:
        return kafka_python_arguments(security)
    except SettingError as error:
        raise click.ClickException(str(error)) from None


def addresses(bootstrap: str) -> list[Address]:
    """Parse a bootstrap list. Raises BadParameter: names the part that is no address."""
    try:
        return list(parse_addresses(bootstrap))
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--bootstrap-server") from None
