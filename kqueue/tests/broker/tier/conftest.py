from __future__ import annotations

from collections.abc import Iterator

import pytest

from kqueue.tests.broker.tier.tiered_brokers import tests_scheme


@pytest.fixture(autouse=True)
def _tests_scheme() -> Iterator[None]:
    with tests_scheme():
        yield
