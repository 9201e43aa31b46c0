"""Which settings a topic with `remote.storage.enable` may have, and when it may be disabled.

The messages begin with Kafka's words, which tools look for.

Source: Kafka's LogConfig.validateRemoteStorageConfigs (KIP-405, KIP-950).
"""

from __future__ import annotations

from kqueue.base.config import TopicConfig
from kqueue.base.errors import InvalidConfig
from kqueue.broker.tier_config import SYSTEM_ENABLE, TIER_URL

TIERED = "remote.storage.enable"
COPY_DISABLE = "remote.log.copy.disable"
DELETE_ON_DISABLE = "remote.log.delete.on.disable"
OF_TOTAL = -2
"""Of `local.retention.*`: the topic's `retention.*` holds."""
UNBOUNDED = -1


def check_tiered(checked: TopicConfig, was_tiered: bool, *, is_internal: bool = False) -> None:
    """Check the settings of a topic as a whole.

    Args: was_tiered: `remote.storage.enable` before the change. Raises: InvalidConfig.
    """
    if not checked[TIERED]:
        if was_tiered and not checked[DELETE_ON_DISABLE]:
            raise InvalidConfig(
                f"{TIERED}=false would leave the topic's records in the tier out of reach. To copy nothing more and go "
                f"on reading, set {COPY_DISABLE}=true and leave {TIERED}=true. To delete what the tier has, set "
                f"{DELETE_ON_DISABLE}=true together with {TIERED}=false."
            )
        return
    if is_internal:
        raise InvalidConfig(f"{TIERED}=true: expected a topic of clients, found an internal one, which is read whole")
    _check_enabled(checked)
    policies = checked["cleanup.policy"]
    if policies not in ([], ["delete"]):
        raise InvalidConfig(
            f"a topic with {TIERED}=true can't be compacted: expected cleanup.policy=delete, or an empty one, found "
            f"cleanup.policy={','.join(policies)}"
        )
    for unit in ("bytes", "ms"):
        _check_retention(checked, f"local.retention.{unit}", f"retention.{unit}")


def _check_enabled(checked: TopicConfig) -> None:
    if not checked.broker[SYSTEM_ENABLE]:
        raise InvalidConfig(
            f"{TIERED}=true: tiered storage is disabled at this broker, expected {SYSTEM_ENABLE}=true and {TIER_URL}"
        )


def _check_retention(checked: TopicConfig, local_name: str, total_name: str) -> None:
    local, total = checked[local_name], checked[total_name]
    if local == OF_TOTAL:
        return
    if total > UNBOUNDED and (local == UNBOUNDED or local > total):
        raise InvalidConfig(
            f"{local_name}: expected {OF_TOTAL} or at most {total_name}={total}, which bounds disk and tier together, "
            f"found {local}"
        )
    if checked[COPY_DISABLE] and local != total:
        raise InvalidConfig(
            f"{local_name}: expected {OF_TOTAL} or {total_name}={total}, because {COPY_DISABLE}=true: what is on the "
            f"disk is copied no more, found {local}"
        )
