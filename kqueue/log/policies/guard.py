"""What a cleanup policy of a plugin must have; what it does wrong later is seen to where policies
are asked (`broker.cleanup`).
"""

from __future__ import annotations

from kqueue.base.errors import PluginError
from kqueue.base.registry import RegistryEntry
from kqueue.log.policies.contract import CleanupPolicy


def check_policy(policy: CleanupPolicy, entry: RegistryEntry[CleanupPolicy]) -> CleanupPolicy:
    """The policy itself. Raises PluginError: it is none."""
    title = entry.title("cleanup policy")
    if isinstance(policy, type):
        raise PluginError(f"{title}: expected an instance, found the class {policy.__name__}")
    if not callable(getattr(policy, "plan", None)):
        raise PluginError(f"{title}: expected a cleanup policy, found {type(policy).__name__} without the method plan")
    return policy
