"""DescribeLogDirs: the broker's data folders, the room on their volumes, and how much each partition holds there."""

from __future__ import annotations

from kqueue.api.call import Call
from kqueue.api.errors import code_of
from kqueue.api.slices import Work, in_slices
from kqueue.broker.waiting import Wait
from kqueue.log.manager import LogDir
from kqueue.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

VERSIONS = (0, 5)
VERSION_ERROR = 3
UNKNOWN = -1
Wanted = set[tuple[str, int]]


def handle(request: DescribeLogDirsRequest, call: Call) -> DescribeLogDirsResponse | Wait[DescribeLogDirsResponse]:
    """`topics` None: all partitions. A folder that is offline says so, and tells nothing else."""
    return in_slices(call, _work(request, call))


def _work(request: DescribeLogDirsRequest, call: Call) -> Work[DescribeLogDirsResponse]:
    wanted = None if request.topics is None else {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    response = DescribeLogDirsResponse()
    for folder in call.broker.logs.log_dirs():
        result = yield from _result(folder, wanted)
        response.results.append(result)
    return response


def refuse(request: DescribeLogDirsRequest, version: int, error: BaseException) -> DescribeLogDirsResponse:
    if version >= VERSION_ERROR:
        return DescribeLogDirsResponse(error_code=code_of(error))
    # older answers have no place of their own for an error: one folder without a name, as Kafka's client expects of a failed broker
    return DescribeLogDirsResponse(results=[DescribeLogDirsResult(error_code=code_of(error))])


def _result(folder: LogDir, wanted: Wanted | None) -> Work[DescribeLogDirsResult]:
    if folder.error is not None:
        return DescribeLogDirsResult(error_code=code_of(folder.error), log_dir=folder.place)
    return DescribeLogDirsResult(
        log_dir=folder.place,
        topics=(yield from _topics(folder, wanted)),
        total_bytes=UNKNOWN if folder.total_bytes is None else folder.total_bytes,
        usable_bytes=UNKNOWN if folder.usable_bytes is None else folder.usable_bytes,
    )


def _topics(folder: LogDir, wanted: Wanted | None) -> Work[list[DescribeLogDirsTopic]]:
    topics: dict[str, DescribeLogDirsTopic] = {}
    for (name, index), size in sorted(folder.partitions.items()):
        yield
        if wanted is None or (name, index) in wanted:
            topic = topics.setdefault(name, DescribeLogDirsTopic(name=name))
            # a leader's log never ends before its high watermark, so nothing is behind; and no replica is on its way from another folder
            topic.partitions.append(DescribeLogDirsPartition(partition_index=index, partition_size=size, offset_lag=0))
    return list(topics.values())
