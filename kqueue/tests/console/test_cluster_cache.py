from __future__ import annotations

import pytest

from kqueue.client import ClusterMetadata
from kqueue.console.cluster_cache import AGE_MAX_S, LOGINS_MAX, ClusterCache


class _Cluster:
    """Counts its readings, each of which takes `cost_s`."""

    def __init__(self, cost_s: float) -> None:
        self.now_s, self.cost_s, self.readings = 0.0, cost_s, 0

    def read(self) -> ClusterMetadata:
        self.now_s += self.cost_s
        self.readings += 1
        return ClusterMetadata({}, {}, str(self.readings))


def test_a_small_cluster_is_read_for_each_page() -> None:
    cluster = _Cluster(0.01)
    cache = ClusterCache(lambda: cluster.now_s)
    for expected in ("1", "2"):
        metadata, is_stale = cache.metadata("ann", cluster.read)
        assert (metadata.cluster_id, is_stale) == (expected, False)
        cluster.now_s += 0.2


def test_a_large_cluster_is_shown_from_the_last_reading_and_read_after_the_page() -> None:
    cluster = _Cluster(0.5)
    cache = ClusterCache(lambda: cluster.now_s)
    cache.metadata("ann", cluster.read)
    cluster.now_s += 4
    assert cache.metadata("ann", cluster.read)[1] is False
    cluster.now_s += 4
    metadata, is_stale = cache.metadata("ann", cluster.read)
    assert (metadata.cluster_id, is_stale, cluster.readings) == ("1", True, 1)
    cache.renew("ann", cluster.read)
    assert cache.metadata("ann", cluster.read)[0].cluster_id == "2"


def test_an_old_reading_is_not_shown() -> None:
    cluster = _Cluster(0.5)
    cache = ClusterCache(lambda: cluster.now_s)
    cache.metadata("ann", cluster.read)
    cluster.now_s += AGE_MAX_S + 1
    assert cache.metadata("ann", cluster.read)[0].cluster_id == "2"


def test_a_change_makes_the_next_page_read_again() -> None:
    cluster = _Cluster(0.5)
    cache = ClusterCache(lambda: cluster.now_s)
    cache.metadata("ann", cluster.read)
    cache.invalidate()
    assert cache.metadata("ann", cluster.read)[0].cluster_id == "2"


def test_logins_do_not_see_each_others_and_few_are_kept() -> None:
    cluster = _Cluster(0.5)
    cache = ClusterCache(lambda: cluster.now_s)
    for number in range(LOGINS_MAX + 1):
        assert cache.metadata(str(number), cluster.read)[0].cluster_id == str(number + 1)
    assert cache.metadata("0", cluster.read)[0].cluster_id == str(LOGINS_MAX + 2)


def test_a_reading_that_fails_is_raised_and_not_kept() -> None:
    cluster = _Cluster(0.5)
    cache = ClusterCache(lambda: cluster.now_s)

    def fail() -> ClusterMetadata:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        cache.metadata("ann", fail)
    assert cache.metadata("ann", cluster.read)[0].cluster_id == "1"
