"""Feature levels of the cluster: which formats and protocols are in use (KIP-584).

A level that was never changed is the default of this build. A changed one is stored, in one entry
of the metadata store; a newer build with another default keeps it. The table is `FEATURES`; a
feature enters it once its level is true.
Source: Kafka's FeatureControlManager.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from kqueue.base.errors import InvalidUpdateVersion, KqueueError, StorageFailed
from kqueue.base.promise import Promise
from kqueue.broker.metadata.brokers import Cluster
from kqueue.broker.metadata.cache import MetadataCache
from kqueue.replication.registrations import BrokerRegistration

KEY = "/features"
METADATA_VERSION = "metadata.version"
TRANSACTION_VERSION = "transaction.version"
GROUP_VERSION = "group.version"
SHARE_VERSION = "share.version"
STREAMS_VERSION = "streams.version"
PREFIX = "The update failed for all features since the following feature had an error: "


class Feature(NamedTuple):
    """A feature that this build supports: its range of levels, and the level of a new cluster."""

    name: str
    level_min: int
    level_max: int
    level_default: int


FEATURES: tuple[Feature, ...] = (
    Feature(METADATA_VERSION, 7, 30, 30),  # 3.3-IV3 to 4.3-IV0
    Feature(TRANSACTION_VERSION, 0, 2, 2),  # 2: KIP-890
    Feature(GROUP_VERSION, 0, 1, 1),  # 1: KIP-848
    Feature(SHARE_VERSION, 0, 1, 1),  # 1: KIP-932
    Feature(STREAMS_VERSION, 0, 1, 1),  # 1: KIP-1071
)
"""All features, with the ranges of Kafka 4.3. By name."""


class UpgradeType(IntEnum):
    """The directions that a change of a level may take."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """One requested change. `upgrade_type`: a value of `UpgradeType`, or unknown."""

    name: str
    level: int
    upgrade_type: int = UpgradeType.UPGRADE


class FeatureLevels(NamedTuple):
    """The features in an ApiVersions response. `finalized`: levels above 0. `epoch`: grows with
    each change; -1: none known.
    """

    supported: Sequence[Feature] = ()
    finalized: Mapping[str, int] = {}
    epoch: int = -1


class Features:
    """The levels of one cluster, kept in its metadata."""

    def __init__(self, metadata: MetadataCache, cluster: Cluster) -> None:
        self._metadata = metadata
        self._cluster = cluster
        self._supported = {feature.name: feature for feature in FEATURES}
        self._stored: dict[str, int] = {}
        self._change_count = 0
        self._levels = self._current()

    def load(self) -> None:
        """Read the stored levels. Raises StorageFailed: they can't be read, or this build does not
        support one.
        """
        value = self._metadata.get(KEY)
        if value is not None:
            self._apply(value)
        self._metadata.observe(KEY, lambda changed: self._apply(changed[""]))

    def _apply(self, value: bytes | None) -> None:
        stored, change_count = ({}, 0) if value is None else _parse(value)
        for name, level in stored.items():
            feature = self._supported.get(name)
            if feature is None or not _supports(feature, level):
                raise StorageFailed(
                    f"the metadata has {name} at level {level}, which this version does not support; "
                    "start the version that wrote it, and lower the level there"
                )
        self._stored, self._change_count = stored, change_count
        self._levels = self._current()

    def level(self, name: str) -> int:
        """Return the level of a feature; 0 if it is off or unknown."""
        return self._levels.finalized.get(name, 0)

    @property
    def levels(self) -> FeatureLevels:
        """All features, for clients."""
        return self._levels

    def check(self, updates: Sequence[FeatureUpdate]) -> None:
        """Check `updates`, each after those before it. Raises InvalidUpdateVersion: the first that
        is refused, and why.
        """
        self._levels_after(updates)

    def _levels_after(self, updates: Sequence[FeatureUpdate]) -> dict[str, int]:
        levels = levels_after(self._levels, updates)
        for update in updates:
            for broker in self._cluster.all():  # those that are fenced too: they will be back
                reason = _unsupported(update, broker)
                if reason is not None:
                    raise InvalidUpdateVersion(f"{PREFIX}{_invalid(update)}{reason}")
        return levels

    def update(self, updates: Sequence[FeatureUpdate]) -> Promise[None]:
        """Apply all of `updates` or none. Raises as `check`; the promise: StorageFailed, Conflict.

        Durability: on disk when the promise is done. A crash before keeps the old levels, or has
        all of the new ones.
        """
        levels = self._levels_after(updates)
        promise: Promise[None] = Promise()
        stored = {**self._stored, **{update.name: levels[update.name] for update in updates}}
        if stored == self._stored:
            promise.resolve(None)
            return promise

        def done(error: KqueueError | None) -> None:
            if error is not None:
                self._metadata.fail(promise, error)
                return
            self._metadata.resolve(promise, None)

        value = json.dumps({"levels": stored, "changes": self._change_count + 1}).encode()
        self._metadata.commit("change feature levels", {KEY: value}, done)
        return promise

    def _current(self) -> FeatureLevels:
        levels = {feature.name: self._stored.get(feature.name, feature.level_default) for feature in FEATURES}
        # a newer build with a higher default has a higher epoch too, so that clients notice
        epoch = self._change_count + sum(feature.level_default for feature in FEATURES)
        return FeatureLevels(FEATURES, {name: level for name, level in levels.items() if level}, epoch)


def levels_after(levels: FeatureLevels, updates: Sequence[FeatureUpdate]) -> dict[str, int]:
    """Return the level of every feature after `updates`, each checked after those before it.

    Raises: InvalidUpdateVersion: the first that is refused, and why.
    """
    supported = {feature.name: feature for feature in levels.supported}
    after = {name: levels.finalized.get(name, 0) for name in supported}
    for update in updates:
        reason = _refusal(update, supported.get(update.name), after.get(update.name, 0))
        if reason is not None:
            raise InvalidUpdateVersion(PREFIX + reason)
        after[update.name] = update.level
    return after


def _refusal(update: FeatureUpdate, feature: Feature | None, current: int) -> str | None:
    """Return why `update` is refused, in the order of Kafka's checks; None: it is not."""
    invalid = _invalid(update)
    if update.upgrade_type not in tuple(UpgradeType):
        return f"{invalid}Upgrade type {update.upgrade_type} is unknown."
    if update.level < 0:
        return f"{invalid}A level is not negative."
    if feature is None:
        return f"{invalid}This broker does not know the feature."
    if not _supports(feature, update.level):
        return f"{invalid}This broker supports levels {feature.level_min} to {feature.level_max}."
    if update.level > current and update.upgrade_type != UpgradeType.UPGRADE:
        return f"{invalid}The level is {current}, so this is no downgrade."
    if update.level < current and update.upgrade_type == UpgradeType.UPGRADE:
        return f"{invalid}The level is {current}; a lower one needs a safe or an unsafe downgrade."
    if update.level < current and update.name == METADATA_VERSION:
        return f"{invalid}The level is {current}; the metadata can't be written in an older format."
    return None


def _invalid(update: FeatureUpdate) -> str:
    return f"Invalid update version {update.level} for feature {update.name}. "


def _unsupported(update: FeatureUpdate, broker: BrokerRegistration) -> str | None:
    """Return why a broker of the cluster can't be at the level; None: it can, or does not say.
    Source: Kafka's QuorumFeatures.
    """
    if not broker.features:
        return None
    lowest, highest = broker.features.get(update.name, (0, 0))
    if lowest <= update.level <= highest:
        return None
    if highest == 0:
        return f"Broker {broker.id} does not support this feature."
    return f"Broker {broker.id} only supports versions {lowest}-{highest}."


def _supports(feature: Feature, level: int) -> bool:
    return feature.level_min <= level <= feature.level_max


def _parse(value: bytes) -> tuple[dict[str, int], int]:
    try:
        record = json.loads(value)
        return {str(name): int(level) for name, level in record["levels"].items()}, int(record["changes"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StorageFailed(f"the metadata store is damaged: {KEY} can't be read: {error!r}") from error
