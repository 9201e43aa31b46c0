"""The root command and its subcommands, in the order in which a newcomer needs them."""

from __future__ import annotations

import click

from kqueue import __version__
from kqueue.cli.lazy import LazyCommand, LazyGroup

COMMANDS = {
    "demo": LazyCommand("kqueue.cli.demo:demo", "Send 336,776 flights through a broker, and check every one."),
    "serve": LazyCommand("kqueue.cli.serve:serve", "Run a broker that Kafka clients connect to."),
    "console": LazyCommand("kqueue.cli.console:console", "Show a cluster in a browser, and change it where allowed."),
    "schema-registry": LazyCommand(
        "kqueue.cli.schema_registry:schema_registry", "Serve a schema registry with Confluent's REST API."
    ),
    "profile": LazyCommand("kqueue.cli.profile:profile", "Store the addresses and security of clusters by name."),
    "topics": LazyCommand("kqueue.cli.topics:topics", "Create, list, describe, alter and delete topics."),
    "produce": LazyCommand("kqueue.cli.produce:produce", "Send lines from standard input or a file to a topic."),
    "consume": LazyCommand("kqueue.cli.consume:consume", "Print a topic's records."),
    "collect": LazyCommand("kqueue.cli.collect:collect", "Follow files and send the lines that are added to them."),
    "schemas": LazyCommand(
        "kqueue.cli.schemas:schemas", "List, show, register, check and delete schemas of a registry."
    ),
    "configs": LazyCommand(
        "kqueue.cli.configs:configs", "Show and change settings of topics, brokers, loggers and groups at run time."
    ),
    "log-dirs": LazyCommand(
        "kqueue.cli.log_dirs:log_dirs", "Show the data folders of brokers, or move logs between them."
    ),
    "groups": LazyCommand(
        "kqueue.cli.groups:groups", "List, describe, reset and delete consumer groups and their offsets."
    ),
    "transactions": LazyCommand(
        "kqueue.cli.transactions:transactions", "List, describe and abort transactions; find those that hang."
    ),
    "quotas": LazyCommand(
        "kqueue.cli.quotas:quotas", "Bound what users, client ids and addresses may use of a broker."
    ),
    "cluster": LazyCommand(
        "kqueue.cli.cluster:cluster", "Show a cluster's brokers and replicas; move partitions, elect leaders."
    ),
    "top": LazyCommand(
        "kqueue.cli.top.command:top", "Watch a cluster: rates of topics, lags of groups, slow requests, disks."
    ),
    "metrics": LazyCommand("kqueue.cli.metrics:metrics", "List metrics; print a dashboard for Grafana, or alerts."),
    "service": LazyCommand("kqueue.cli.service:service", "Run a broker as a service of systemd."),
    "health": LazyCommand("kqueue.cli.health:health", "Ask a broker whether it serves all it has, for scripts."),
    "acls": LazyCommand("kqueue.cli.acls:acls", "Add, remove and list ACLs: who may do what."),
    "users": LazyCommand("kqueue.cli.users:users", "Add, remove and list users with passwords, for SCRAM."),
    "certs": LazyCommand("kqueue.cli.certs:certs", "Make certificates for TLS: an authority, brokers, clients."),
    "log": LazyCommand("kqueue.cli.log:log", "Dump, verify, repair and export log folders, without a broker."),
    "tier": LazyCommand("kqueue.cli.tier:tier", "List, check and recover tiered storage in an object store."),
    "backup": LazyCommand("kqueue.cli.backup:backup", "Back up data folders of brokers that run, and restore them."),
    "pipeline": LazyCommand(
        "kqueue.cli.pipeline:pipeline", "Run jobs on Spark: from topics to tables, archives and reports."
    ),
    "plugins": LazyCommand("kqueue.cli.plugins:plugins", "List plugins and their users, or create a new plugin."),
    "settings": LazyCommand(
        "kqueue.cli.settings:settings", "List the settings of brokers and topics, and which have an effect."
    ),
    "errors": LazyCommand("kqueue.cli.errors:errors", "Show what errors of the protocol mean, and what to do."),
    "version": LazyCommand("kqueue.cli.version:version", "Show the versions of kqueue and its dependencies."),
}
EXAMPLES = """\b
  kqueue serve
  kqueue topics create orders -p 3
  echo hello | kqueue produce orders
  kqueue consume orders --from-beginning

Every command has a --help with examples of its own."""


def _use_profile(context: click.Context, parameter: click.Parameter, name: str | None) -> None:
    if name is not None:
        from kqueue.cli.client_access import use_profile

        use_profile(context, name)


@click.group(
    "kqueue",
    cls=LazyGroup,
    table=COMMANDS,
    entry_points="kqueue.commands",
    epilog=EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option("-v", "--verbose", count=True, help="Show the log of the client library (-vv: everything).")
@click.option(
    "--profile",
    metavar="NAME",
    expose_value=False,
    callback=_use_profile,
    help="Work with the cluster of this profile; also an option of each client command.",
)
@click.version_option(__version__, prog_name="kqueue", message="%(prog)s %(version)s")
def kqueue(verbose: int) -> None:
    """kqueue is a message-queue broker that speaks the Apache Kafka protocol.

    It runs on its own (`kqueue serve`) or inside a Python process (`kqueue.Broker`); these commands
    start a broker and work with the topics, records and groups of any broker that speaks Kafka's
    protocol.
    """
    _set_up_logging(verbose)


def _set_up_logging(verbose: int) -> None:
    """Hide the logs of client libraries unless `verbose`: they log each retry as a warning."""
    import logging  # on use: the help text needs none

    clients = [logging.getLogger(name) for name in ("kafka", "aiokafka")]
    if not verbose:
        for client in clients:
            client.addHandler(logging.NullHandler())
            client.propagate = False
        return
    logging.basicConfig(format="%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    for client in clients:
        client.propagate = True
        client.setLevel(logging.DEBUG if verbose > 1 else logging.INFO)
