"""The resources whose settings can change at run time, and the changes. Source: KIP-133,
KIP-339.
"""

from __future__ import annotations

import enum
from typing import NamedTuple


class ResourceType(enum.IntEnum):
    """The types of resources with dynamic settings; the number is its ConfigResource type in
    requests.
    """

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigOperation(enum.IntEnum):
    """The effect of a change on its setting; the number is its AlterConfigOp in requests. APPEND
    and SUBTRACT are for lists.
    """

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    """One change of one setting. `value`: None only with DELETE, which ignores it."""

    operation: ConfigOperation
    name: str
    value: str | None = None
