from __future__ import annotations

from collections.abc import Iterator

import pytest

from kqueue.tests.broker.tier.tiered_brokers import scheme_of_tests


@pytest.fixture(autouse=True)
def _scheme_of_tests() -> Iterator[None]:
    with scheme_of_tests():
        yield
