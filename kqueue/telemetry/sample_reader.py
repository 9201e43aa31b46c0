"""Reads the counters of a broker: one value per metric and labels, at one moment.

It runs on the owner thread in slices, since a broker may have 10,000 partitions: clients are served
in between. Nothing is opened for it: a log that was not used since the start has no sizes and
offsets here.
"""

from __future__ import annotations

from kqueue.base.sliced_task import SlicedWork
from kqueue.telemetry.cluster_samples import read_cluster
from kqueue.telemetry.group_samples import GroupSamples
from kqueue.telemetry.partition_samples import read_partitions
from kqueue.telemetry.samples import NameBound, Samples, Sources
from kqueue.telemetry.server_samples import read_connections, read_requests, read_server, read_upkeep
from kqueue.telemetry.tier_samples import read_tier


class SampleReader:
    """Reads the samples of one broker. Thread: the owner thread."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._bound = NameBound(sources.names_max)
        self._groups = GroupSamples(sources.broker, self._bound)

    def read(self) -> SlicedWork[Samples]:
        """Return all samples; yields after each partition, group and so on."""
        samples, sources = Samples(), self._sources
        read_server(samples, sources)
        read_requests(samples, sources.meter)
        read_upkeep(samples, sources)
        read_cluster(samples, sources.broker)
        yield None
        yield from read_connections(samples, sources.connections)
        yield from read_partitions(samples, sources, self._bound)
        yield from read_tier(samples, sources, self._bound)
        yield from self._groups.read(samples)
        return samples
