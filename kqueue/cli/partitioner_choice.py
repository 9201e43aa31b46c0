"""The partitioner of a command that sends records: the user's choice, else the topic's."""

from __future__ import annotations

import click

from kqueue.base.errors import PluginError
from kqueue.cli.connect import admin
from kqueue.cli.effective_settings import topic_settings
from kqueue.records.partitioners import PARTITIONERS, ClientPartitioner, as_client_partitioner, make_partitioner

SETTING = "kqueue.partitioner"


def load_partitioner(text: str) -> ClientPartitioner:
    """Load a partitioner by name, or by a path like ``package.module:Class``.

    Raises: BadParameter: with the reason why it cannot be loaded.
    """
    try:
        return as_client_partitioner(text)
    except PluginError as error:
        raise click.BadParameter(str(error), param_hint="--partitioner") from None


def follow_topic(slot: ClientPartitioner, bootstrap: str, topic: str) -> None:
    """Set the topic's partitioner in `slot`; brokers other than kqueue have no such setting.

    It accepts names only: a broker must not cause an import here.

    Raises: ClickException: the topic's partitioner is not installed.
    """
    with admin(bootstrap) as client:
        name = topic_settings(client, [topic], [SETTING]).get(topic, {}).get(SETTING)
    if name is None:
        return
    try:
        slot.partitioner = make_partitioner(name)
    except PluginError as error:
        if name in PARTITIONERS.failed:
            raise click.ClickException(f"topic {topic} names its partitioner ({SETTING}), but the {error}") from None
        raise click.ClickException(
            f"topic {topic} has the partitioner {name!r:.100} ({SETTING}), which is not installed here. Install "
            "the distribution that "
            "brings it (`kqueue plugins` names it where the broker runs), or choose another partitioner with "
            "--partitioner."
        ) from None
