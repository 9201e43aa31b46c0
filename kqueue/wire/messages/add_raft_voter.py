"""AddRaftVoter (key 80): add a voter to the metadata log's quorum (KIP-853)."""

from __future__ import annotations

from kqueue.schema import array, boolean, field, int16, int32, message, string, struct, uint16, uuid


@struct
class Listener:
    name: str = field(string)
    host: str = field(string)
    port: int = field(uint16)


@message(api_key=80, versions="0-1", flexible="0+")
class AddRaftVoterRequest:
    cluster_id: str | None = field(string, nullable="0+")
    timeout_ms: int = field(int32)
    voter_id: int = field(int32)
    voter_directory_id: bytes = field(uuid)
    listeners: list[Listener] = field(array(Listener))
    ack_when_committed: bool = field(boolean, "1+", default=True)


@message(api_key=80, versions="0-1", flexible="0+")
class AddRaftVoterResponse:
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable="0+", ignorable=True)
