"""The test kit that ships with kqueue: clocks, faulty storage, public checkers of the contracts.
Nothing of the broker imports it.

What stands in `__all__` is looked up when it is asked for, so that importing this package costs
nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__all__ = [
    "check_cleanup_policy",
    "check_codec",
    "check_metadata_store",
    "check_partitioner",
    "check_storage",
    "faults",
    "sealed_segments",
]

if TYPE_CHECKING:
    from kqueue.testing.broker_faults import faults
    from kqueue.testing.codecs import check_codec
    from kqueue.testing.metadata_stores import check_metadata_store
    from kqueue.testing.partitioners import check_partitioner
    from kqueue.testing.policies import check_cleanup_policy
    from kqueue.testing.sealed import sealed_segments
    from kqueue.testing.storages import check_storage

_MODULES = {
    "check_cleanup_policy": "policies",
    "check_codec": "codecs",
    "check_metadata_store": "metadata_stores",
    "check_partitioner": "partitioners",
    "check_storage": "storages",
    "faults": "broker_faults",
    "sealed_segments": "sealed",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
