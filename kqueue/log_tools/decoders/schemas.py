"""Schemas of Kafka's internal records that kqueue does not write.

They cover the first offset commits, and control records of the metadata log.

Source: Kafka's message definitions of the group coordinator, and of the raft log.
"""

from __future__ import annotations

from kqueue.base.names import UUID_ZERO
from kqueue.schema import array, field, int16, int32, int64, message, string, struct, uint16, uuid

# --- __consumer_offsets, of Kafka 0.8


@message(versions="0")
class LegacyOffsetCommitValue:
    """A committed offset of Kafka 0.8."""

    offset: int = field(int64)
    metadata: str = field(string)
    commit_timestamp: int = field(int64)


# --- control records of the metadata log


@struct
class Voter:
    """A voter of the metadata quorum."""

    voter_id: int = field(int32)
    voter_directory_id: bytes = field(uuid, "1+", default=UUID_ZERO)


@message(versions="0-1", flexible="0+")
class LeaderChangeMessage:
    """A new leader of the metadata quorum."""

    version: int = field(int16)
    leader_id: int = field(int32)
    voters: list[Voter] = field(array(Voter))
    granting_voters: list[Voter] = field(array(Voter))


@message(versions="0", flexible="0+")
class SnapshotHeaderRecord:
    """The first record of a metadata snapshot."""

    version: int = field(int16)
    last_contained_log_timestamp: int = field(int64)


@message(versions="0", flexible="0+")
class SnapshotFooterRecord:
    """The last record of a metadata snapshot."""

    version: int = field(int16)


@message(versions="0", flexible="0+")
class KRaftVersionRecord:
    """The version of the KRaft protocol."""

    version: int = field(int16)
    kraft_version: int = field(int16)


@struct
class Endpoint:
    """A listener of a voter."""

    name: str = field(string)
    host: str = field(string)
    port: int = field(uint16)


@struct
class KRaftVersionFeature:
    """The KRaft versions that a voter supports."""

    min_supported_version: int = field(int16)
    max_supported_version: int = field(int16)


@struct
class RaftVoter:
    """A voter with its directory and listeners."""

    voter_id: int = field(int32)
    voter_directory_id: bytes = field(uuid, default=UUID_ZERO)
    endpoints: list[Endpoint] = field(array(Endpoint))
    kraft_version_feature: KRaftVersionFeature = field(KRaftVersionFeature)


@message(versions="0", flexible="0+")
class VotersRecord:
    """The voters of the metadata quorum."""

    version: int = field(int16)
    voters: list[RaftVoter] = field(array(RaftVoter))
