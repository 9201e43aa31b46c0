"""The console beside `kqueue serve --console`: a process of its own, which ends with the broker."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from kqueue.base.errors import SettingError
from kqueue.cli.companion_process import LOOPBACK, address_of, companion_process

if TYPE_CHECKING:
    from kqueue.base.config import Config
    from kqueue.config.listeners import ListenerConfig

F = TypeVar("F", bound=Callable[..., Any])
LOGIN_MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")


class ConsoleChoice(NamedTuple):
    """The options of a console beside a broker. `port`: on loopback."""

    port: int
    allow_changes: bool = False


def console_options(command: F) -> F:
    """Add ``--console`` and its options, as the argument `console`; None: there is to be none."""

    @functools.wraps(command)
    def gathered(
        *arguments: Any, with_console: bool, console_port: int, console_allow_changes: bool, **options: Any
    ) -> Any:
        if console_allow_changes and not with_console:
            raise click.UsageError("--console-allow-changes belongs to --console: give that too")
        choice = ConsoleChoice(console_port, console_allow_changes) if with_console else None
        return command(*arguments, console=choice, **options)

    wrapped: Any = gathered
    for option in (
        click.option("--console-allow-changes", is_flag=True, help="With --console: accept changes."),
        click.option(
            "--console-port",
            type=click.IntRange(1, 65535),
            default=8080,
            show_default=True,
            metavar="PORT",
            help="The port of --console.",
        ),
        click.option(
            "--console",
            "with_console",
            is_flag=True,
            help="Serve pages that show the broker in a browser, on loopback, by a process of its own.",
        ),
    ):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[no-any-return]


@contextlib.contextmanager
def console_beside(console: ConsoleChoice | None, config: Callable[[], Config], workers: int = 1) -> Iterator[None]:
    """Run a console of a broker during a ``with`` block.

    A console that fails, because its port is in use say, writes why to standard error; the broker
    goes on.

    Args:
        console: None: there is none.
        config: returns the broker's settings.
        workers: processes of it; the metrics of each are at a port of its own.
    Raises: SettingError: no listener is one that the console can connect to by itself.
        ClickException: the packages of the extra are missing.
    """
    if console is None:
        yield
        return
    from kqueue.cli.connect import require

    require("starlette", "console")
    arguments = console_arguments(config(), console, workers)
    with companion_process("console", arguments):
        yield


def console_arguments(config: Config, console: ConsoleChoice, workers: int = 1) -> list[str]:
    """Return the options of `kqueue console` for a broker: a listener without login, or one by SASL
    where each user logs in. Raises: SettingError: there is neither.

    With a listener without login the console keeps a history, of the broker's metrics too.
    """
    from kqueue.config.listeners import parse_listeners

    listener, mechanism = _reachable(config, parse_listeners(config))
    return [
        "--bootstrap-server",
        address_of(listener),
        "--port",
        str(console.port),
        *(("--login", mechanism) if mechanism else _metrics(config, workers)),
        *(("--allow-changes",) if console.allow_changes else ()),
    ]


def _metrics(config: Config, workers: int) -> list[str]:
    """Return the options for the metrics of each worker that are served without TLS."""
    from kqueue.config.metrics_listener import metrics_listener

    listener = metrics_listener(config)
    if listener is None or listener.uses_tls or not listener.port:
        return []
    if listener.host in ("", "0.0.0.0", "::"):
        listener = listener._replace(host=LOOPBACK)
    urls = [f"{listener.shifted(number)}/metrics" for number in range(workers)]
    return [argument for url in urls for argument in ("--metrics", url)]


def _reachable(config: Config, listeners: list[ListenerConfig]) -> tuple[ListenerConfig, str]:
    """Return the listener to connect to, and the mechanism of logins; "": it needs none."""
    from kqueue.security.sasl.config import ENABLED_MECHANISMS

    in_clear = [one for one in listeners if not one.protocol.uses_tls and one.bind.port]
    for listener in in_clear:
        if not listener.protocol.uses_sasl:
            return listener, ""
    for listener in in_clear:
        enabled = config.of_listener(listener.bind.name, ENABLED_MECHANISMS)
        for mechanism in LOGIN_MECHANISMS:
            if mechanism in enabled:
                return listener, mechanism
    raise SettingError(
        "--console needs a listener with a fixed port and without TLS, open or with SASL by PLAIN or SCRAM; found "
        f"{', '.join(str(one.bind) for one in listeners)}. Start the console by itself: kqueue console "
        "--bootstrap-server HOST:PORT --command-config FILE"
    )
