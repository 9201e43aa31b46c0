"""Conditional puts whose connections are cut: each takes place once, or is refused for a reason."""

from __future__ import annotations

import random
import threading

import pytest

from compat_tests.tiered.proxy import Proxy
from compat_tests.tiered.retrying import open_retrying
from compat_tests.tiered.servers import Server
from kqueue.tier.errors import ObjectChanged, TierUnavailable
from kqueue.tier.stores.address import open_store
from kqueue.tier.stores.contract import TierStore

FATES = ("before", "half", "after", None, None)
CHANGES = 40


def test_lost_answer_is_unavailable_without_retries(server: Server, prefix: str) -> None:
    with Proxy(server.port) as proxy:
        store = open_store(server.url(prefix, port=proxy.port))
        proxy.fates.decide = lambda number: "after"
        with pytest.raises(TierUnavailable):
            store.put_if("m", b"1", None)
        assert store.get("m", max_bytes=9).body == b"1", "it took place"


def test_lost_answer_is_recognized_with_retries(server: Server, prefix: str) -> None:
    with Proxy(server.port) as proxy:
        store = open_retrying(server.url(prefix, port=proxy.port))
        proxy.fates.decide = lambda number: "after" if number == 1 else None
        version = store.put_if("m", b"1", None)
        assert proxy.fates.count == 1, "the object was read, and nothing was put again"
        assert store.put_if("m", b"2", version)
        assert store.get("m", max_bytes=9).body == b"2"


def test_no_change_is_lost_and_none_happens_twice(server: Server, prefix: str) -> None:
    """Two writers add lines to one object; three of five of their puts are cut."""
    direct = open_store(server.url(prefix))
    direct.put_if("m", b"", None)
    cuts = []

    def write(name: str, store: TierStore) -> None:
        for number in range(CHANGES):
            line = f"{name}-{number}\n".encode()
            while True:
                body, version = store.get("m", max_bytes=100_000)
                if line in body:
                    break
                try:
                    store.put_if("m", body + line, version)
                except ObjectChanged:
                    continue
                break

    def decide(rng: random.Random) -> str | None:
        cuts.append(rng.choice(FATES))
        return cuts[-1]

    with Proxy(server.port) as one, Proxy(server.port) as two:
        threads = []
        for seed, proxy in enumerate((one, two)):
            rng = random.Random(seed)
            proxy.fates.decide = lambda number, rng=rng: decide(rng)  # type: ignore[misc]
            store = open_retrying(server.url(prefix, port=proxy.port))
            threads.append(threading.Thread(target=write, args=(f"writer{seed}", store)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(200)
            assert not thread.is_alive()
    lines = direct.get("m", max_bytes=100_000).body.decode().split()
    assert sorted(lines) == sorted(f"writer{seed}-{number}" for seed in range(2) for number in range(CHANGES))
    assert min(cuts.count(fate) for fate in FATES) > 5, "too few connections were cut"
