"""A notice when the broker creates a topic because a command named it: the name may be mistyped."""

from __future__ import annotations

import click

from kqueue.base.names import did_you_mean
from kqueue.base.text import counted
from kqueue.cli.connect import own_client

ANSWER_TIMEOUT_MS = 5_000


class TopicCreationNotice:
    """Checks whether `topic` exists before a command makes the broker create it."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic = topic
        self._bootstrap = bootstrap
        self._known = self._names()

    @property
    def is_missing(self) -> bool:
        """Whether the topic did not exist; False if the broker did not say."""
        return self._known is not None and self.topic not in self._known

    @property
    def nearest(self) -> str:
        """``; did you mean 'orders'?``, or an empty text if no topic has a similar name."""
        return did_you_mean(self.topic, self._known or ())

    def created(self, partitions: int) -> str:
        """Return the notice for a topic that the broker has created."""
        size = counted(partitions, "partition")
        return f"there was no topic {self.topic!r}: the broker created it with {size}{self.nearest}"

    def print_if_created(self, partitions: int) -> None:
        """Print the notice on standard error if the topic was missing."""
        if self.is_missing:
            click.echo(self.created(partitions), err=True)

    def _names(self) -> set[str] | None:
        try:
            with own_client(self._bootstrap) as client:
                return {
                    name
                    for name, topic in client.metadata(timeout_ms=ANSWER_TIMEOUT_MS).topics.items()
                    if not topic.is_internal
                }
        except click.ClickException:  # the command itself reports the broker's error
            return None
