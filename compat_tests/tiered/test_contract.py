"""Each server under the public checks of tier stores."""

from __future__ import annotations

import pytest

from compat_tests.tiered.retrying import open_retrying
from compat_tests.tiered.servers import Server
from kqueue.testing import check_tier_store
from kqueue.tier.stores.address import open_store


def test_store_keeps_the_contract(server: Server) -> None:
    if server.name == "moto":
        pytest.skip("skipped, because moto answers 500 to a read beside a put: with retries only")
    check_tier_store(open_store, server.url("{name}"), big_bytes=20 << 20, time_limit_s=200)


def test_store_with_retries_keeps_the_contract(server: Server) -> None:
    check_tier_store(open_retrying, server.url("{name}"), big_bytes=20 << 20, time_limit_s=200)
