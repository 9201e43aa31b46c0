"""Checks a plugin's cleanup policy when it is loaded; the broker checks its plans."""

from __future__ import annotations

from kqueue.base.errors import PluginError
from kqueue.base.registry import RegistryEntry
from kqueue.log.policies.contract import CleanupPolicy


def check_policy(policy: CleanupPolicy, entry: RegistryEntry[CleanupPolicy]) -> CleanupPolicy:
    """Return the policy.

    Raises:
        PluginError: it is not a cleanup policy.
    """
    title = entry.title("cleanup policy")
    if isinstance(policy, type):
        raise PluginError(f"{title}: expected an instance, found the class {policy.__name__}")
    if not callable(getattr(policy, "plan", None)):
        raise PluginError(f"{title}: expected a cleanup policy, found {type(policy).__name__} without the method plan")
    return policy
