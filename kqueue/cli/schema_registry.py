"""`kqueue schema-registry`: a schema registry; the work is in `kqueue.schema_registry`."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import click

from kqueue.base.errors import KqueueError
from kqueue.cli.companion_process import watch
from kqueue.cli.completion import complete_groups, complete_topics
from kqueue.cli.connect import bootstrap_option, client_security, find_broker, require
from kqueue.cli.signals import stop_on_signal

PACKAGES = ("starlette", "uvicorn", "fastavro", "jsonschema_rs", "google.protobuf")


@click.command("schema-registry")
@bootstrap_option
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="The address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8081,
    show_default=True,
    metavar="PORT",
    help="The port to listen on; 0 takes a free one.",
)
@click.option(
    "--advertised-url",
    metavar="URL",
    help="By which the other registries of the group reach this one; by default the address that it listens on.",
)
@click.option(
    "--topic",
    default="_schemas",
    show_default=True,
    metavar="NAME",
    shell_complete=complete_topics,
    help="The topic of the schemas.",
)
@click.option(
    "--group",
    default="schema-registry",
    show_default=True,
    metavar="NAME",
    shell_complete=complete_groups,
    help="The group in which the registries of one topic elect the one that writes.",
)
@click.option("--follower", is_flag=True, help="Never become the one that writes.")
@click.option(
    "--compatibility",
    default="BACKWARD",
    show_default=True,
    metavar="LEVEL",
    help="The compatibility level where none is set: NONE, BACKWARD, FORWARD or FULL, or one of these with "
    "_TRANSITIVE.",
)
@click.option(
    "--users-file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Have users log in: a line user=password for each, or with a SCRAM-SHA-512 hash in place of the password.",
)
@click.option(
    "--login",
    metavar="MECHANISM",
    help="Have users log in as users of the brokers, which check each login by PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.",
)
@click.option(
    "--acls",
    "uses_acls",
    is_flag=True,
    help="Let the brokers' ACLs decide: what a user may do with a topic, the user may do with its subjects.",
)
@click.option(
    "--super-user",
    "super_users",
    multiple=True,
    metavar="NAME",
    help="With --acls: a user who may do everything; may be repeated.",
)
@click.option(
    "--tls-cert", type=click.Path(dir_okay=False), metavar="FILE", help="Serve HTTPS: the certificate, in PEM."
)
@click.option("--tls-key", type=click.Path(dir_okay=False), metavar="FILE", help="The certificate's key, in PEM.")
@click.option(
    "--leader-ca",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Whom to trust as another registry with HTTPS, in PEM; by default the authorities of the system.",
)
@click.option("--allow-anonymous", is_flag=True, help="Serve another address than loopback without logins.")
@click.option(
    "--allow-plain-http",
    is_flag=True,
    help="Serve logins on another address than loopback without TLS, behind a proxy that adds it.",
)
@click.option("--while-stdin-is-open", is_flag=True, hidden=True)  # of the process of `kqueue serve --schema-registry`
def schema_registry(bootstrap: str, follower: bool, while_stdin_is_open: bool, **options: Any) -> None:
    """Serve a schema registry with Confluent's REST API, until Ctrl-C or TERM.

    \b
      kqueue schema-registry
      kqueue schema-registry --bootstrap-server broker1:9092 --port 8082
      kqueue schema-registry --compatibility FULL_TRANSITIVE
      kqueue schema-registry --users-file users.properties
      kqueue schema-registry --login SCRAM-SHA-256 --acls
      kqueue schema-registry --host 0.0.0.0 --login PLAIN --tls-cert cert.pem --tls-key key.pem
      kqueue schema-registry --host 0.0.0.0 --advertised-url http://registry1:8081 --allow-anonymous

    The schemas are in the topic _schemas of the brokers, of kqueue or of Apache Kafka, in the
    records of Confluent's registry and of Karapace. The topic is created if it does not exist.

    Start as many registries as you like, also beside those of Confluent or Karapace with the same
    --topic and --group: one of them writes, the others answer what they know and send it the rest.
    When it ends, another one takes over.

    By default the registry listens on 127.0.0.1:8081 and lets everybody in. Another address needs
    --login or --users-file, and TLS, or the options that allow to do without. It serves metrics at
    /metrics where prometheus-client is installed.
    """
    for package in PACKAGES:
        require(package, "registry")
    from kqueue.schema_registry.options import RegistryOptions, client_options
    from kqueue.schema_registry.server import RegistryServer

    try:
        options["compatibility"] = options["compatibility"].upper()
        client = client_options(bootstrap, client_security())
        registry_options = RegistryOptions(client=client, is_eligible=not follower, **options)
        _log_to_stderr()
        find_broker(bootstrap)
        server = RegistryServer(registry_options)
    except (KqueueError, OSError, ValueError) as error:
        raise click.ClickException(str(error)) from None
    try:
        if while_stdin_is_open:
            watch(sys.stdin.buffer, server.stop)
        with stop_on_signal(server.stop):
            click.echo(f"The schema registry of {bootstrap} is at {server.url}")
            sys.stdout.flush()
            server.run()
    finally:
        server.close()


def _log_to_stderr() -> None:
    """Write what the registry logs to standard error."""
    from kqueue.supervisor.logs import OneLineFormatter  # on use: --help needs no broker's modules

    logger = logging.getLogger("kqueue.schema_registry")
    handler = logging.StreamHandler()
    handler.setFormatter(OneLineFormatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
