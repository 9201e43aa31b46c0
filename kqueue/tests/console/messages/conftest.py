"""A broker of their own: other tests of the console see its topics otherwise."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kqueue import Broker


@pytest.fixture(scope="package")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker
