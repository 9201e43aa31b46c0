"""Who chooses partitions for a command that sends records: the one that the user names, else the
topic's own.
"""

from __future__ import annotations

import click

from kqueue.base.errors import PluginError
from kqueue.cli.connect import admin
from kqueue.cli.effective_settings import topic_settings
from kqueue.records.partitioners import PARTITIONERS, ClientPartitioner, as_client_partitioner, make_partitioner

SETTING = "kqueue.partitioner"


def named(text: str) -> ClientPartitioner:
    """What the user asks for: a name, or a path like ``package.module:Class``. Raises BadParameter:
    why it can't be had.
    """
    try:
        return as_client_partitioner(text)
    except PluginError as error:
        raise click.BadParameter(str(error), param_hint="--partitioner") from None


def follow_topic(placing: ClientPartitioner, bootstrap: str, topic: str) -> None:
    """Have `placing` do as the topic says; brokers that are not kqueue say nothing, and leave it as
    it is.

    Takes names alone: a broker must not be able to have a module imported here. Raises
    ClickException: the topic's is not here.
    """
    with admin(bootstrap) as client:
        name = topic_settings(client, [topic], [SETTING]).get(topic, {}).get(SETTING)
    if name is None:
        return
    try:
        placing.partitioner = make_partitioner(name)
    except PluginError as error:
        if name in PARTITIONERS.failed:
            raise click.ClickException(f"topic {topic} names its partitioner ({SETTING}), but the {error}") from None
        raise click.ClickException(
            f"topic {topic} has the partitioner {name!r:.100} ({SETTING}), which is not installed here. Install the distribution that "
            "brings it (`kqueue plugins` names it where the broker runs), or choose another partitioner with --partitioner."
        ) from None
