"""What the screen shows: the latest reading of a cluster, and what changed since those before."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kqueue.admin.rates import GroupTrend, History, TopicRate
from kqueue.admin.request_times import ApiTimes
from kqueue.admin.snapshot import Snapshot

NO_RATE = TopicRate(None, None)
NO_TREND = GroupTrend(None, None, None, None)


@dataclass(frozen=True, slots=True)
class Picture:
    """A reading of a cluster with its rates. It does not change; its series go on to grow.

    Attributes:
        snapshot: the latest one that succeeded; None: none did yet.
        requests: None: no address of metrics was given.
        problems: what could not be read, a sentence each.
        error: why the latest reading failed, so that `snapshot` is older; None: it did not.
        failed_for_s: how long readings have failed.
    """

    bootstrap: str
    snapshot: Snapshot | None = None
    topics: Mapping[str, TopicRate] = field(default_factory=dict)
    groups: Mapping[str, GroupTrend] = field(default_factory=dict)
    total: TopicRate = NO_RATE
    total_series: Sequence[float | None] = ()
    requests: Sequence[ApiTimes] | None = None
    problems: Sequence[str] = ()
    error: str | None = None
    failed_for_s: float = 0.0
    history: History = field(default_factory=History)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def topic_series(self, name: str) -> list[float | None]:
        """Return the records per second of a topic, oldest first."""
        with self.lock:
            return self.history.topic_records(name)

    def group_series(self, name: str) -> list[float | None]:
        """Return the lags of a group, oldest first."""
        with self.lock:
            return self.history.group_lags(name)
