"""DescribeLogDirs (key 35): data folders, space on their volumes, sizes of partitions (KIP-113).

Versions 0 to 5:

    0       size, offset lag and future replicas per partition
    1       clients throttle themselves (KIP-219)
    2       flexible encoding (KIP-482)
    3       an error of the whole response
    4       total and usable bytes of the volume (KIP-827)
    5       whether a folder is cordoned (KIP-1066); none is

A log that is being moved here is a future replica; its lag counts from the last whole segment.
"""

from __future__ import annotations

from collections.abc import Iterable

from kqueue.api.access import on_cluster
from kqueue.api.errors import code_of
from kqueue.api.request_context import RequestContext, wait_for_all
from kqueue.api.slices import in_slices
from kqueue.base.errors import KqueueError, StorageFailed
from kqueue.base.jobs import IoJob
from kqueue.base.promise import Promise
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation
from kqueue.log.folders.log_dirs import LogDirDescription, LogDirListing
from kqueue.security.errors import ClusterAuthorizationFailed
from kqueue.security.operations import AclOperation
from kqueue.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

VERSIONS = (0, 5)
ACCESS = (on_cluster(AclOperation.DESCRIBE),)
VERSION_ERROR = 3
UNKNOWN = -1


def handle(
    request: DescribeLogDirsRequest, context: RequestContext
) -> DescribeLogDirsResponse | DelayedOperation[DescribeLogDirsResponse]:
    """Describe the requested partitions; `topics` None: all. Of an offline one the error."""
    return in_slices(context, _handle_sliced(request, context))


def _handle_sliced(
    request: DescribeLogDirsRequest, context: RequestContext
) -> SlicedWork[DescribeLogDirsResponse | DelayedOperation[DescribeLogDirsResponse]]:
    partitions = (
        None
        if request.topics is None
        else {(topic.topic, index) for topic in request.topics for index in topic.partitions}
    )
    listings, offline = context.broker.logs.list_log_dirs(partitions)
    if context.broker.config["kqueue.storage"] == "memory":  # listed on this thread: it does not block
        return (yield from _respond([listing.run() for listing in listings] + offline))
    promises = tuple(_list(listing, context) for listing in listings)
    return wait_for_all(
        promises, lambda: in_slices(context, _respond([promise.result() for promise in promises] + offline))
    )


def _list(listing: LogDirListing, context: RequestContext) -> Promise[LogDirDescription]:
    """List a data folder in a job queue of its own: it may hold 100,000 partition folders."""
    promise: Promise[LogDirDescription] = Promise()

    def finish(log_dir: LogDirDescription | None, error: BaseException | None) -> None:
        if log_dir is None:
            promise.fail(
                error
                if isinstance(error, KqueueError)
                else StorageFailed(f"{listing.place} can't be listed: {error!r}")
            )
        else:
            promise.resolve(log_dir)
        context.broker.scheduler.purgatory.wake(promise)

    context.broker.scheduler.jobs.submit(IoJob(f"list {listing.place}", listing.run, finish, listing.place))
    return promise


def _respond(folders: Iterable[LogDirDescription]) -> SlicedWork[DescribeLogDirsResponse]:
    response = DescribeLogDirsResponse()
    for folder in folders:
        result = yield from _result(folder)
        response.results.append(result)
    return response


def error_response(request: DescribeLogDirsRequest, version: int, error: BaseException) -> DescribeLogDirsResponse:
    """Return `error`, below version 3 as a folder without a name; none stands for a denial."""
    if version >= VERSION_ERROR or isinstance(error, ClusterAuthorizationFailed):
        return DescribeLogDirsResponse(error_code=code_of(error))
    # older responses have no field for it; Kafka's client expects one folder without a name
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
        # a leader's log never ends before its high watermark
        topic.partitions.append(DescribeLogDirsPartition(partition_index=index, partition_size=size, offset_lag=0))
    for (name, index), future in sorted(folder.futures.items()):
        yield None
        topic = topics.setdefault(name, DescribeLogDirsTopic(name=name))
        topic.partitions.append(
            DescribeLogDirsPartition(
                partition_index=index, partition_size=future.size, offset_lag=future.offset_lag, is_future_key=True
            )
        )
    return list(topics.values())
