from __future__ import annotations

import pytest

from kqueue.console.reading_cache import AGE_MAX_S, READINGS_MAX, ReadingCache, ReadingKey

ANN = ReadingKey("ann", "metadata")


class _Cluster:
    """Counts its readings, each of which takes `cost_s`."""

    def __init__(self, cost_s: float) -> None:
        self.now_s, self.cost_s, self.readings = 0.0, cost_s, 0
        self.cache = ReadingCache(lambda: self.now_s)

    def read(self) -> str:
        self.now_s += self.cost_s
        self.readings += 1
        return str(self.readings)


def test_what_is_read_quickly_is_read_for_each_page() -> None:
    cluster = _Cluster(0.01)
    for expected in ("1", "2"):
        assert cluster.cache.get(ANN, cluster.read) == (expected, False)
        cluster.now_s += 0.2


def test_what_takes_long_is_shown_from_the_last_reading_and_read_after_the_page() -> None:
    cluster = _Cluster(0.5)
    cluster.cache.get(ANN, cluster.read)
    cluster.now_s += 4
    assert cluster.cache.get(ANN, cluster.read) == ("1", False)
    cluster.now_s += 4
    assert cluster.cache.get(ANN, cluster.read) == ("1", True)
    cluster.cache.renew(ANN, cluster.read)
    assert cluster.cache.get(ANN, cluster.read) == ("2", False)


def test_an_old_reading_is_not_shown() -> None:
    cluster = _Cluster(0.5)
    cluster.cache.get(ANN, cluster.read)
    cluster.now_s += AGE_MAX_S + 1
    assert cluster.cache.get(ANN, cluster.read)[0] == "2"


def test_a_change_makes_the_next_page_read_again() -> None:
    cluster = _Cluster(0.5)
    cluster.cache.get(ANN, cluster.read)
    cluster.cache.invalidate()
    assert cluster.cache.get(ANN, cluster.read)[0] == "2"


def test_logins_do_not_see_each_others_and_few_are_kept() -> None:
    cluster = _Cluster(0.5)
    keys = [ReadingKey(str(number), "metadata") for number in range(READINGS_MAX + 1)]
    for number, key in enumerate(keys):
        assert cluster.cache.get(key, cluster.read)[0] == str(number + 1)
    assert cluster.cache.get(ReadingKey("1", "log folders"), cluster.read)[0] == str(READINGS_MAX + 2)
    assert cluster.cache.get(keys[0], cluster.read)[0] == str(READINGS_MAX + 3)


def test_a_reading_that_fails_is_raised_and_not_kept() -> None:
    cluster = _Cluster(0.5)

    def fail() -> str:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        cluster.cache.get(ANN, fail)
    assert cluster.cache.get(ANN, cluster.read)[0] == "1"
