"""A bound on the producer ids that all logs of a broker remember.

Beyond it the log with the most forgets those that have been idle for the longest, as if they had
expired: the next batch of such a producer may begin with any sequence (KIP-360), and a repetition
of its last batch is not recognized. ProducerStateManager with an open transaction stay.
"""

from __future__ import annotations

import logging

from kqueue.base import events
from kqueue.log.producer_state import ProducerStateManager

logger = logging.getLogger("kqueue.log")
SHARE = 100
"""A hundredth of a log's ids is dropped at once, so that the search for the largest log is rare."""


class ProducerLimit:
    """Counts the producer ids of all watched logs. Thread: owner thread."""

    def __init__(self, ids_max: int) -> None:
        self._ids_max = ids_max
        self._watched: dict[ProducerStateManager, None] = {}
        self._forgotten = 0
        self._next_line = 1
        self.count = 0

    def watch(self, producers: ProducerStateManager) -> None:
        """Count the ids of one log from now on."""
        self._watched[producers] = None
        self.count += len(producers)
        producers.sort_by_idleness()
        producers.on_change = self._changed
        self._keep_within()

    def unwatch(self, producers: ProducerStateManager) -> None:
        """Stop counting a log that was closed; no effect if it was not watched."""
        if producers in self._watched:
            producers.on_change = None
            del self._watched[producers]
            self.count -= len(producers)

    def _changed(self, more: int) -> None:
        self.count += more
        if more > 0 and self.count > self._ids_max:
            self._keep_within()

    def _keep_within(self) -> None:
        while self.count > self._ids_max:
            largest = max(self._watched, key=len)
            dropped = largest.forget_idle(max(self.count - self._ids_max, len(largest) // SHARE))
            if not dropped:
                return  # all of its producers have open transactions
            self._forgotten += dropped
            if self._forgotten >= self._next_line:
                self._next_line = 10 * self._forgotten
                events.PRODUCER_IDS_FORGOTTEN.log(
                    logger,
                    "%d producer ids were forgotten before they expired, because all logs together remember at "
                    "most %d: "
                    "kqueue.max.producer.ids sets the bound, producer.id.expiration.ms the age",
                    forgotten=self._forgotten,
                    ids_max=self._ids_max,
                )
