"""RemoveRaftVoter (key 81): remove a voter from the metadata log's quorum (KIP-853)."""

from __future__ import annotations

from kqueue.schema import field, int16, int32, message, string, uuid


@message(api_key=81, versions="0", flexible="0+")
class RemoveRaftVoterRequest:
    cluster_id: str | None = field(string, nullable="0+")
    voter_id: int = field(int32)
    voter_directory_id: bytes = field(uuid)


@message(api_key=81, versions="0", flexible="0+")
class RemoveRaftVoterResponse:
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", ignorable=True)
