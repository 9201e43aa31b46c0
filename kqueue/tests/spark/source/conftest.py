from __future__ import annotations

from collections.abc import Iterator

import pytest

import kqueue


@pytest.fixture
def broker() -> Iterator[kqueue.Broker]:
    """A broker in memory that makes no topics unasked."""
    with kqueue.Broker(auto_create_topics_enable=False) as running:
        yield running
