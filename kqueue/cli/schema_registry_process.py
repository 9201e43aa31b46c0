"""The registry beside `kqueue serve --schema-registry`: a process of its own, which ends with the
broker.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from kqueue.base.errors import SettingError
from kqueue.cli.companion_process import address_of, companion_process

if TYPE_CHECKING:
    from kqueue.base.config import Config

F = TypeVar("F", bound=Callable[..., Any])
BROKER_WAIT_S = 600
"""A broker that recovers after a crash answers later."""


class RegistryChoice(NamedTuple):
    """The options of a schema registry beside a broker. `port`: on loopback."""

    port: int


def schema_registry_options(command: F) -> F:
    """Add ``--schema-registry`` and its options, as the argument `registry`; None: there is to be
    none.
    """

    @functools.wraps(command)
    def gathered(*arguments: Any, with_registry: bool, registry_port: int, **options: Any) -> Any:
        return command(*arguments, registry=RegistryChoice(registry_port) if with_registry else None, **options)

    wrapped: Any = gathered
    for option in (
        click.option(
            "--schema-registry-port",
            "registry_port",
            type=click.IntRange(1, 65535),
            default=8081,
            show_default=True,
            metavar="PORT",
            help="The port of --schema-registry.",
        ),
        click.option(
            "--schema-registry",
            "with_registry",
            is_flag=True,
            help="Serve a schema registry of the broker, on loopback, by a process of its own.",
        ),
    ):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[no-any-return]


@contextlib.contextmanager
def schema_registry_beside(registry: RegistryChoice | None, config: Callable[[], Config]) -> Iterator[None]:
    """Run a schema registry of a broker during a ``with`` block.

    A registry that fails, because its port is in use say, writes why to standard error; the broker
    goes on.

    Args:
        registry: None: there is none.
        config: returns the broker's settings.
    Raises: SettingError: no listener is one that the registry can connect to by itself.
        ClickException: the packages of the extra are missing.
    """
    if registry is None:
        yield
        return
    from kqueue.cli.connect import require

    require("starlette", "registry")
    with companion_process("schema-registry", schema_registry_arguments(config(), registry)):
        yield


def schema_registry_arguments(config: Config, registry: RegistryChoice) -> list[str]:
    """Return the options of `kqueue schema-registry` for a broker: its listener without login.

    Raises: SettingError: there is none.
    """
    from kqueue.config.listeners import parse_listeners

    listeners = parse_listeners(config)
    for listener in listeners:
        if not listener.protocol.uses_tls and not listener.protocol.uses_sasl and listener.bind.port:
            return [
                "--bootstrap-server",
                address_of(listener),
                "--timeout",
                str(BROKER_WAIT_S),
                "--port",
                str(registry.port),
            ]
    raise SettingError(
        "--schema-registry needs a listener with a fixed port, without TLS and SASL; found "
        f"{', '.join(str(one.bind) for one in listeners)}. Start the registry by itself: kqueue schema-registry "
        "--bootstrap-server HOST:PORT --command-config FILE"
    )
