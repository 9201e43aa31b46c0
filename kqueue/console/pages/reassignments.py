"""Reassignments: partitions that are being moved with their progress; begin and cancel a move;
elect preferred leaders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kqueue.client import Client, LogDir, Reassignment, Refusal, TopicPartition
from kqueue.client.retry_policy import response_error
from kqueue.console.listing import listing
from kqueue.console.page import Page, form_error
from kqueue.console.pages.topics import log_dirs_of, named_topic
from kqueue.console.problems import Problem

REPLICAS_MAX = 100
DIGITS_MAX = 10


class MoveProgress(NamedTuple):
    """A partition that is being moved. `copied`, `total`: bytes of the replicas that are added.

    `total`: as many times the leader's log; None: not known.
    """

    partition: TopicPartition
    replicas: Sequence[int]
    adding: Sequence[int]
    removing: Sequence[int]
    copied: int
    total: int | None

    @property
    def percent(self) -> int | None:
        """How much is copied; 100 also while the new replicas only have to join the in-sync set."""
        if self.total is None:
            return None
        return 100 if self.total == 0 else min(100, 100 * self.copied // self.total)


def reassignments(request: Request) -> Response:
    """Show what is being moved."""
    return _page(Page(request))


def _page(page: Page, problem: Problem | None = None) -> Response:
    with page.client() as client:
        moves = client.cluster.reassignments()
        shown = listing(sorted(moves), page.query, lambda partition: partition.topic)
        rows = _progress(client, {partition: moves[partition] for partition in shown.rows})
        brokers = sorted(client.metadata([]).brokers)
    names = ("topic", "partition", "replicas")
    return page.render(
        "reassignments.html",
        title="Reassignments",
        status=200 if problem is None else problem.status,
        listing=shown,
        rows=rows,
        brokers=brokers,
        problem=problem,
        values={name: page.field(name) or page.query.get(name, "") for name in names},
    )


def _progress(client: Client, moves: Mapping[TopicPartition, Reassignment]) -> list[MoveProgress]:
    if not moves:
        return []
    metadata = client.metadata({partition.topic for partition in moves})
    dirs = log_dirs_of(client, metadata, moves)
    rows = []
    for partition, move in moves.items():
        described = metadata.topics[partition.topic].partitions.get(partition.partition)
        led = None if described is None else _size(dirs, described.leader, partition)
        copied = sum(min(_size(dirs, node_id, partition) or 0, led or 0) for node_id in move.adding)
        total = None if led is None else led * len(move.adding)
        rows.append(MoveProgress(partition, move.replicas, move.adding, move.removing, copied, total))
    return rows


def _size(dirs: Mapping[int, Sequence[LogDir]], node_id: int, partition: TopicPartition) -> int | None:
    return next((folder.sizes[partition] for folder in dirs.get(node_id, ()) if partition in folder.sizes), None)


def reassign(request: Request) -> Response:
    """Begin to move one partition to other brokers."""
    page = Page(request)
    try:
        topic = page.field("topic")
        partition = TopicPartition(topic, _number(page.field("partition"), "partition"))
        replicas = parse_replicas(page.field("replicas"))
        with page.client() as client:
            named_topic(client, topic)
            with page.change("reassign partition", str(partition), {"replicas": ", ".join(map(str, replicas))}):
                _raise_refusal(client.cluster.reassign({partition: replicas}))
    except Exception as error:
        return _page(page, form_error(error))
    page.flash(f"{partition} moves to {', '.join(map(str, replicas))}.")
    return page.redirect("/reassignments")


def cancel(request: Request) -> Response:
    """Cancel the move of one partition; its replicas stay where they were."""
    page = Page(request)
    try:
        partition = TopicPartition(page.field("topic"), _number(page.field("partition"), "partition"))
        with page.client() as client, page.change("cancel reassignment", str(partition)):
            _raise_refusal(client.cluster.reassign({partition: None}))
    except Exception as error:
        return _page(page, form_error(error))
    page.flash(f"Cancelled the move of {partition}.")
    return page.redirect("/reassignments")


def elect(request: Request) -> Response:
    """Have the preferred leader of each partition lead it."""
    page = Page(request)
    try:
        with page.client() as client, page.change("elect preferred leaders"):
            elected = client.cluster.elect_leaders()
    except Exception as error:
        return _page(page, form_error(error))
    refused = [partition for partition, refusal in elected.items() if refusal.code]
    page.flash(f"Elected leaders of {len(elected) - len(refused)} partitions.")
    if refused:
        page.flash(f"{len(refused)} partitions keep their leader, {refused[0]} among them.", "warning")
    return page.redirect("/reassignments")


def parse_replicas(text: str) -> list[int]:
    """Return the ids of brokers, separated by commas or spaces. Raises: ValueError."""
    replicas = [_number(part, "replicas") for part in text.replace(",", " ").split()]
    if not replicas:
        raise ValueError("replicas: give the ids of brokers, the preferred leader first")
    if len(set(replicas)) != len(replicas):
        raise ValueError("replicas: a broker is there twice")
    if len(replicas) > REPLICAS_MAX:
        raise ValueError(f"replicas: expected up to {REPLICAS_MAX}, found {len(replicas)}")
    return replicas


def _number(text: str, what: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < DIGITS_MAX):
        raise ValueError(f"{what}: expected a whole number, found {text!r:.60}")
    return int(text)


def _raise_refusal(refusals: Mapping[TopicPartition, Refusal]) -> None:
    for partition, refusal in refusals.items():
        raise response_error(refusal.code, "AlterPartitionReassignments", "", partition, refusal.message)


ROUTES = [
    Route("/reassignments", reassignments),
    Route("/reassignments/begin", reassign, methods=["POST"]),
    Route("/reassignments/cancel", cancel, methods=["POST"]),
    Route("/reassignments/elect", elect, methods=["POST"]),
]
