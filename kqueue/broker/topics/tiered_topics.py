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
                "It is invalid to disable remote storage without deleting remote data. If you want to keep the remote "
                f"data and turn to read only, please set `{TIERED}=true,{COPY_DISABLE}=true`. If you want to disable "
                f"remote storage and delete all remote data, please set `{TIERED}=false,{DELETE_ON_DISABLE}=true`."
            )
        return
    if is_internal:
        raise InvalidConfig(f"{TIERED}=true: expected a topic of clients, found an internal one, which is read whole")
    _check_enabled(checked)
    policies = checked["cleanup.policy"]
    if policies not in ([], ["delete"]):
        raise InvalidConfig(
            "Remote log storage only supports topics with cleanup.policy=delete or cleanup.policy being an empty list."
            f": found cleanup.policy={','.join(policies)}"
        )
    for unit in ("bytes", "ms"):
        _check_retention(checked, f"local.retention.{unit}", f"retention.{unit}")


def _check_enabled(checked: TopicConfig) -> None:
    if not checked.broker[SYSTEM_ENABLE]:
        raise InvalidConfig(
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log "
            f"storage.: expected {SYSTEM_ENABLE}=true and {TIER_URL} at the broker"
        )


def _check_retention(checked: TopicConfig, local_name: str, total_name: str) -> None:
    local, total = checked[local_name], checked[total_name]
    if local == OF_TOTAL:
        return
    invalid = f"Invalid value {local} for configuration {local_name}"
    if total > UNBOUNDED:
        if local == UNBOUNDED:
            raise InvalidConfig(f"{invalid}: Value must not be -1 as {total_name} value is set as {total}.")
        if local > total:
            raise InvalidConfig(f"{invalid}: Value must not be more than {total_name} property value: {total}")
    if checked[COPY_DISABLE] and local != total:
        raise InvalidConfig(
            f"When `{COPY_DISABLE}` is set to true, the `{local_name}` and `{total_name}` must be set to the identical "
            "value because there will be no more logs copied to the remote storage."
        )
