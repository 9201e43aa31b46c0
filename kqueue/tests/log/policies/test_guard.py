from __future__ import annotations

import pytest

from kqueue.base.errors import PluginError
from kqueue.log.policies import POLICIES
from kqueue.tests.plugged import NEVER, NeverPolicy


def test_a_policy_is_taken_as_it_is() -> None:
    with POLICIES.added("never", NEVER, "a test"):
        assert POLICIES.get("never") is NEVER


def test_object_that_is_no_policy_is_refused() -> None:
    with pytest.raises(
        PluginError, match="cleanup policy 'x' of a test: expected an instance, found the class NeverPolicy"
    ):
        POLICIES.guarded("x", NeverPolicy, "a test")  # type: ignore[arg-type]
    with pytest.raises(
        PluginError, match="cleanup policy 'x' of a test: expected a cleanup policy, found int without the method plan"
    ):
        POLICIES.guarded("x", 5, "a test")  # type: ignore[arg-type]
