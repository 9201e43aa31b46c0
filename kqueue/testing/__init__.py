"""Test kit that ships with kqueue: clocks, fault injection, contract checks for plugins.

The broker does not import it. Names in `__all__` are imported on first use, so that importing the
package is cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__all__ = [
    "NETWORK_PROFILES",
    "NetworkProfile",
    "PowerCutDisks",
    "Remains",
    "check_assignor",
    "check_authorizer",
    "check_cleanup_policy",
    "check_cluster_store",
    "check_codec",
    "check_metadata_store",
    "check_partitioner",
    "check_storage",
    "check_tier_store",
    "faults",
    "sealed_segments",
]

if TYPE_CHECKING:
    from kqueue.testing.assignor_checks import check_assignor
    from kqueue.testing.authorizer_checks import check_authorizer
    from kqueue.testing.cluster_store_checks import check_cluster_store
    from kqueue.testing.codec_checks import check_codec
    from kqueue.testing.fault_injection import faults
    from kqueue.testing.faulty_storage import Remains
    from kqueue.testing.metadata_store_checks import check_metadata_store
    from kqueue.testing.network_profiles import NETWORK_PROFILES, NetworkProfile
    from kqueue.testing.partitioner_checks import check_partitioner
    from kqueue.testing.policy_checks import check_cleanup_policy
    from kqueue.testing.power_cuts import PowerCutDisks
    from kqueue.testing.segment_fixtures import sealed_segments
    from kqueue.testing.storage_checks import check_storage
    from kqueue.testing.tier_store_checks import check_tier_store

_MODULES = {
    "NETWORK_PROFILES": "network_profiles",
    "NetworkProfile": "network_profiles",
    "PowerCutDisks": "power_cuts",
    "Remains": "faulty_storage",
    "check_assignor": "assignor_checks",
    "check_authorizer": "authorizer_checks",
    "check_cleanup_policy": "policy_checks",
    "check_cluster_store": "cluster_store_checks",
    "check_codec": "codec_checks",
    "check_metadata_store": "metadata_store_checks",
    "check_partitioner": "partitioner_checks",
    "check_storage": "storage_checks",
    "check_tier_store": "tier_store_checks",
    "faults": "fault_injection",
    "sealed_segments": "segment_fixtures",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
