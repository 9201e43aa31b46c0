from __future__ import annotations

import pytest

from kqueue.tests.schema_registry.support import LoggedRegistry


@pytest.fixture
def registry() -> LoggedRegistry:
    return LoggedRegistry()
