"""`kqueue console`: pages in a browser; the work is in `kqueue.console`."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kqueue.base.errors import KqueueError
from kqueue.cli.companion_process import watch
from kqueue.cli.connect import bootstrap_option, client_security, require
from kqueue.cli.console_schemas import schema_options
from kqueue.cli.signals import stop_on_signal

if TYPE_CHECKING:
    from kqueue.console.messages.schema_values import SchemaSettings

TOKEN_BYTES_MAX = 4096


@click.command()
@bootstrap_option(waits=False)
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="The address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8080,
    show_default=True,
    metavar="PORT",
    help="The port to listen on; 0 takes a free one.",
)
@click.option("--allow-changes", is_flag=True, help="Accept changes; without it the console only shows.")
@click.option(
    "--login",
    metavar="MECHANISM",
    help="Have each user log in to the brokers by PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; the brokers decide what the "
    "user sees.",
)
@click.option(
    "--token",
    envvar="KQUEUE_CONSOLE_TOKEN",
    show_envvar=True,
    metavar="TOKEN",
    help="Have each browser show this token once, of 16 characters or more. Other users of this machine see it in the "
    "list of processes: prefer the variable or --token-file.",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="As --token, with the token on the first line of a file.",
)
@click.option(
    "--tls-cert", type=click.Path(dir_okay=False), metavar="FILE", help="Serve HTTPS: the certificate, in PEM."
)
@click.option("--tls-key", type=click.Path(dir_okay=False), metavar="FILE", help="The certificate's key, in PEM.")
@click.option(
    "--allow-plain-http",
    is_flag=True,
    help="Serve another address than loopback without TLS, behind a proxy that adds it.",
)
@click.option(
    "--allowed-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    help="A name by which browsers reach the console, beside its own; may be repeated.",
)
@click.option("--while-stdin-is-open", is_flag=True, hidden=True)  # of the process of `kqueue serve --console`
@click.option(
    "--history-interval",
    "history_interval_s",
    type=click.IntRange(0, 3600),
    default=10,
    show_default=True,
    metavar="SECONDS",
    help="How often the cluster is read for charts and trends, which are kept in memory; 0: never.",
)
@click.option(
    "--metrics",
    multiple=True,
    metavar="URL",
    help="The metrics of a kqueue broker (kqueue.metrics.listener), for its charts and requests; may be repeated.",
)
@schema_options
def console(
    bootstrap: str,
    host: str,
    port: int,
    allow_changes: bool,
    login: str | None,
    token: str | None,
    token_file: Path | None,
    tls_cert: str | None,
    tls_key: str | None,
    allow_plain_http: bool,
    allowed_hosts: tuple[str, ...],
    while_stdin_is_open: bool,
    history_interval_s: int,
    metrics: tuple[str, ...],
    schemas: SchemaSettings | None,
) -> None:
    """Serve pages that show a cluster in a browser, until Ctrl-C or TERM.

    \b
      kqueue console
      kqueue console --bootstrap-server broker1:9092 --port 8081
      kqueue console --allow-changes
      kqueue console --metrics http://127.0.0.1:9404/metrics
      kqueue console --schema-registry http://localhost:8081
      kqueue console --login SCRAM-SHA-256 --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem

    The cluster can be of kqueue or of Apache Kafka. By default the console listens on
    127.0.0.1:8080, shows all that the credentials of --command-config may see, and changes nothing.
    It waits for no broker: pages say that none answers, until one does. Another
    address needs --login or a token, and TLS. Each change is a
    line of the log.
    """
    require("starlette", "console")
    require("uvicorn", "console")
    from kqueue.console.options import ConsoleOptions, client_options
    from kqueue.console.server import ConsoleServer

    if token is not None and token_file is not None:
        raise click.UsageError("--token and --token-file exclude each other")
    try:
        options = ConsoleOptions(
            client=client_options(bootstrap, client_security()),
            host=host,
            port=port,
            allow_changes=allow_changes,
            login=login,
            token=token if token_file is None else _read_token(token_file),
            tls_cert=tls_cert,
            tls_key=tls_key,
            allow_plain_http=allow_plain_http,
            allowed_hosts=allowed_hosts,
            history_interval_ms=history_interval_s * 1000 or None,
            metrics=metrics,
            schemas=schemas,
        )
        _log_to_stderr()
        server = ConsoleServer(options)
    except (KqueueError, OSError, ValueError) as error:
        raise click.ClickException(str(error)) from None
    if while_stdin_is_open:
        watch(sys.stdin.buffer, server.stop)
    with stop_on_signal(server.stop):
        click.echo(f"The console of {bootstrap} is at {server.url}" + ("" if allow_changes else " (read-only)"))
        sys.stdout.flush()
        server.run()


def _read_token(path: Path) -> str:
    """Return the first line of a file. Raises ClickException."""
    try:
        with path.open("rb") as file:
            line = file.readline(TOKEN_BYTES_MAX).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise click.ClickException(f"can't read the token of {path}: {error}") from None
    return line


def _log_to_stderr() -> None:
    """Write what the console logs, changes above all, to standard error."""
    from kqueue.supervisor.logs import OneLineFormatter  # on use: --help needs no broker's modules

    logger = logging.getLogger("kqueue.console")
    handler = logging.StreamHandler()
    handler.setFormatter(OneLineFormatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
