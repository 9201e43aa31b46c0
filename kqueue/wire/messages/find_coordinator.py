"""FindCoordinator (key 10): ask which broker coordinates a group or a transaction."""

from __future__ import annotations

from kqueue.schema import array, field, int8, int16, int32, message, shortened, string, struct


@message(api_key=10, versions="0-6", flexible="3+")
class FindCoordinatorRequest:
    key: str = field(string, "0-3")
    key_type: int = field(int8, "1+")
    coordinator_keys: list[str] = field(array(string), "4+")


@struct
class Coordinator:
    key: str = field(string, "4+")
    node_id: int = field(int32, "4+")
    host: str = field(string, "4+")
    port: int = field(int32, "4+")
    error_code: int = field(int16, "4+")
    error_message: str | None = shortened(field(string, "4+", nullable="4+", ignorable=True))


@message(api_key=10, versions="0-6", flexible="3+")
class FindCoordinatorResponse:
    throttle_time_ms: int = field(int32, "1+", ignorable=True)
    error_code: int = field(int16, "0-3")
    error_message: str | None = shortened(field(string, "1-3", nullable="1-3", ignorable=True))
    node_id: int = field(int32, "0-3")
    host: str = field(string, "0-3")
    port: int = field(int32, "0-3")
    coordinators: list[Coordinator] = field(array(Coordinator), "4+")
