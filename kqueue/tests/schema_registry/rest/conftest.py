from __future__ import annotations

from collections.abc import Iterator

import pytest

from kqueue.tests.schema_registry.rest.api import Api, serving
from kqueue.tests.schema_registry.support import LoggedRegistry


@pytest.fixture
def api(registry: LoggedRegistry) -> Iterator[Api]:
    """A client of the API of `registry`."""
    with serving(registry) as api:
        yield api
