"""DescribeLogDirs: the broker's data folders, the room on their volumes, and how much each
partition holds there.
"""

from __future__ import annotations

from collections.abc import Iterable

from kqueue.api.errors import code_of
from kqueue.api.request_context import RequestContext, wait_for_all
from kqueue.api.slices import in_slices
from kqueue.base.errors import KqueueError, StorageFailed
from kqueue.base.jobs import IoJob
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation
from kqueue.log.folders.log_dirs import LogDirDescription, LogDirListing
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


def handle(
    request: DescribeLogDirsRequest, context: RequestContext
) -> DescribeLogDirsResponse | DelayedOperation[DescribeLogDirsResponse]:
    """`topics` None: all partitions. A folder that is offline says so, and tells nothing else."""
    return in_slices(context, _handle_sliced(request, context))


def _handle_sliced(
    request: DescribeLogDirsRequest, context: RequestContext
) -> SlicedWork[DescribeLogDirsResponse | DelayedOperation[DescribeLogDirsResponse]]:
    wanted = (
        None
        if request.topics is None
        else {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    )
    listings, offline = context.broker.logs.list_log_dirs(wanted)
    if context.broker.config["kqueue.storage"] == "memory":  # which is the owner thread's, and answers at once
        return (yield from _respond([listing.run() for listing in listings] + offline))
    promises = tuple(_list(listing, context) for listing in listings)
    return wait_for_all(
        promises, lambda: in_slices(context, _respond([promise.result() for promise in promises] + offline))
    )


def _list(listing: LogDirListing, context: RequestContext) -> Promise[LogDirDescription]:
    """List a data folder in a job of its own queue: there may be 100,000 folders of partitions in
    it.
    """
    promise: Promise[LogDirDescription] = Promise()

    def finish(found: LogDirDescription | None, error: BaseException | None) -> None:
        if found is None:
            promise.fail(
                error
                if isinstance(error, KqueueError)
                else StorageFailed(f"{listing.place} can't be listed: {error!r}")
            )
        else:
            promise.resolve(found)
        context.broker.purgatory.wake(promise)

    context.broker.jobs.submit(IoJob(f"list {listing.place}", listing.run, finish, listing.place))
    return promise


def _respond(folders: Iterable[LogDirDescription]) -> SlicedWork[DescribeLogDirsResponse]:
    response = DescribeLogDirsResponse()
    for folder in folders:
        result = yield from _result(folder)
        response.results.append(result)
    return response


def error_response(request: DescribeLogDirsRequest, version: int, error: BaseException) -> DescribeLogDirsResponse:
    if version >= VERSION_ERROR:
        return DescribeLogDirsResponse(error_code=code_of(error))
    # older answers have no place of their own for an error: one folder without a name, as Kafka's
    # client expects of a failed broker
    return DescribeLogDirsResponse(results=[DescribeLogDirsResult(error_code=code_of(error))])


def _result(folder: LogDirDescription) -> SlicedWork[DescribeLogDirsResult]:
    if folder.error is not None:
        return DescribeLogDirsResult(error_code=code_of(folder.error), log_dir=folder.place)
    return DescribeLogDirsResult(
        log_dir=folder.place,
        topics=(yield from _topics(folder)),
        total_bytes=UNKNOWN if folder.total_bytes is None else folder.total_bytes,
        usable_bytes=UNKNOWN if folder.usable_bytes is None else folder.usable_bytes,
    )


def _topics(folder: LogDirDescription) -> SlicedWork[list[DescribeLogDirsTopic]]:
    topics: dict[str, DescribeLogDirsTopic] = {}
    for (name, index), size in sorted(folder.partitions.items()):
        yield None
        topic = topics.setdefault(name, DescribeLogDirsTopic(name=name))
        # a leader's log never ends before its high watermark, so nothing is behind; and no replica
        # is on its way from another folder
        topic.partitions.append(DescribeLogDirsPartition(partition_index=index, partition_size=size, offset_lag=0))
    return list(topics.values())
