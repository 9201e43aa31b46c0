from __future__ import annotations

import pytest

from kqueue.demo.events import Event
from kqueue.demo.flights import Flight
from kqueue.tests.demo.pipeline import sample_flights


@pytest.fixture
def flights() -> list[Flight]:
    return sample_flights.sample_flights()


@pytest.fixture
def told() -> list[Event]:
    return sample_flights.sample_events()
