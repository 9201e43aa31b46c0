"""DescribeLogDirs (key 35): ask for the data folders of a broker and what lies in them."""

from __future__ import annotations

from kqueue.schema import array, boolean, field, int16, int32, int64, message, string, struct


@struct
class DescribableLogDirTopic:
    topic: str = field(string)
    partitions: list[int] = field(array(int32))


@message(api_key=35, versions="0-5", flexible="2+")
class DescribeLogDirsRequest:
    topics: list[DescribableLogDirTopic] | None = field(array(DescribableLogDirTopic), nullable="0+")


@struct
class DescribeLogDirsPartition:
    partition_index: int = field(int32)
    partition_size: int = field(int64)
    offset_lag: int = field(int64)
    is_future_key: bool = field(boolean)


@struct
class DescribeLogDirsTopic:
    name: str = field(string)
    partitions: list[DescribeLogDirsPartition] = field(array(DescribeLogDirsPartition))


@struct
class DescribeLogDirsResult:
    error_code: int = field(int16)
    log_dir: str = field(string)
    topics: list[DescribeLogDirsTopic] = field(array(DescribeLogDirsTopic))
    total_bytes: int = field(int64, "4+", default=-1, ignorable=True)
    usable_bytes: int = field(int64, "4+", default=-1, ignorable=True)
    is_cordoned: bool = field(boolean, "5+", ignorable=True)


@message(api_key=35, versions="0-5", flexible="2+")
class DescribeLogDirsResponse:
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16, "3+", ignorable=True)
    results: list[DescribeLogDirsResult] = field(array(DescribeLogDirsResult))
