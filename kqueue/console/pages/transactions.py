"""Transactions: those that are open with their age, one transactional id, and hanging ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kqueue.admin.hanging_transactions import HangingTransaction, abort_marker, find_hanging_transactions
from kqueue.admin.partition_conditions import NO_LEADER
from kqueue.admin.transaction_states import GRACE_MINUTES, MAX_TIMEOUT_MINUTES, MS_PER_MINUTE, OPEN_STATES, STATES
from kqueue.base.clock import monotonic_s, wall_ms
from kqueue.base.text import counted
from kqueue.client import Client, ClusterMetadata, TopicPartition, TransactionDescription
from kqueue.client.errors import ClientError
from kqueue.console.charts.units import ago_text
from kqueue.console.listing import listing
from kqueue.console.page import Crumb, Page
from kqueue.console.problems import UnknownResource

DESCRIBED_S = 3.0
"""How long the transactions of one page are described for."""
SEARCHED_MAX = 2_000
"""Partitions that one search for hanging transactions asks for."""
TRANSACTIONS = (Crumb("Transactions", "/transactions"),)


@dataclass(frozen=True, slots=True)
class TransactionRow:
    """A transactional id in the list. `description`: None: not read, or not in time."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int
    description: TransactionDescription | None = None

    @property
    def is_open(self) -> bool:
        """Whether its transaction has not ended."""
        return self.state in OPEN_STATES


def transactions(request: Request) -> Response:
    """Show the transactional ids; without a filter those with an open transaction."""
    page = Page(request)
    state = page.query.get("state", "open")
    states: Sequence[str] = {"open": OPEN_STATES, "all": ()}.get(state, (state,) if state in STATES else OPEN_STATES)
    with page.client() as client:
        listings = client.transactions.find(states)
        rows = sorted(
            (
                TransactionRow(each.transactional_id, each.producer_id, each.state, coordinator)
                for coordinator, listed in listings.items()
                for each in listed
            ),
            key=lambda row: row.transactional_id,
        )
        shown = listing(rows, page.query, lambda row: row.transactional_id, keep=("state",))
        described = _described(client, shown.rows)
    return page.render(
        "transactions.html",
        title="Transactions",
        listing=shown,
        rows=described,
        ages=_ages([row.description for row in described if row.description is not None]),
        duration=ago_text,
        state=state,
        states=[("open", "open"), ("all", "all"), *((each, each) for each in STATES)],
    )


def transaction(request: Request) -> Response:
    """Show one transactional id."""
    page = Page(request)
    id = request.path_params["id"]
    with page.client() as client:
        description = client.transactions.describe(id)
    return page.render(
        "transaction.html",
        title=id,
        crumbs=TRANSACTIONS,
        transaction=description,
        is_open=description.state in OPEN_STATES,
        age=_ages([description]).get(id),
        duration=ago_text,
    )


def abort(request: Request) -> Response:
    """Abort the open transaction of a transactional id, and fence its producer."""
    page = Page(request)
    id = request.path_params["id"]
    with page.client() as client, page.change("abort transaction", id):
        client.transactions.describe(id)  # fencing an unknown id would create it
        fenced = client.transactions.fence(id)
    page.flash(f"Aborted the transaction of {id}; its producer is fenced (epoch {fenced.epoch} now).")
    return page.redirect("/transactions")


def hanging(request: Request) -> Response:
    """Search one topic, or all, for transactions that no coordinator will end."""
    page = Page(request)
    topic = page.query.get("topic", "")
    hanging: list[HangingTransaction] | None = None
    searched = 0
    metadata = page.cluster()
    with page.client() as client:
        if "search" in page.query:
            partitions = _searched(metadata, topic)
            searched = len(partitions)
            oldest_ms = wall_ms() - (MAX_TIMEOUT_MINUTES + GRACE_MINUTES) * MS_PER_MINUTE
            hanging = find_hanging_transactions(client, partitions, oldest_ms)
    return page.render(
        "transactions_hanging.html",
        title="Hanging transactions",
        crumbs=TRANSACTIONS,
        topics=[("", "all topics"), *((name, name) for name in sorted(metadata.topics))],
        topic=topic,
        hanging=hanging,
        searched=searched,
        minutes=MAX_TIMEOUT_MINUTES + GRACE_MINUTES,
    )


def abort_hanging(request: Request) -> Response:
    """Write an abort marker to one partition, for a transaction that hangs there."""
    page = Page(request)
    partition = TopicPartition(page.field("topic"), _number(page.field("partition"), "partition"))
    start = _number(page.field("start"), "start")
    with page.client() as client:
        producers = client.transactions.producers([partition])[partition]
        producer = next((each for each in producers if each.transaction_start == start), None)
        if producer is None:
            raise UnknownResource(f"No transaction in {partition} starts at offset {start} any more.")
        with page.change("abort hanging transaction", str(partition), {"start offset": str(start)}):
            client.transactions.abort({partition: abort_marker(producer)})
    page.flash(f"Aborted the transaction of producer {producer.producer_id} in {partition}.")
    return page.redirect("/transactions/hanging")


def _searched(metadata: ClusterMetadata, topic: str) -> list[TopicPartition]:
    """Return the partitions with a leader. Raises: ValueError: too many, or no such topic."""
    if topic and topic not in metadata.topics:
        raise ValueError(f"There is no topic {topic!r}.")
    names = [topic] if topic else list(metadata.topics)
    partitions = [
        TopicPartition(name, index)
        for name in names
        for index, partition in metadata.topics[name].partitions.items()
        if partition.leader != NO_LEADER
    ]
    if len(partitions) > SEARCHED_MAX:
        raise ValueError(
            f"A page searches up to {SEARCHED_MAX:,} partitions, found {counted(len(partitions), 'partition')}: "
            "choose a topic, or use `kqueue transactions find-hanging`."
        )
    return partitions


def _described(client: Client, rows: Iterable[TransactionRow]) -> list[TransactionRow]:
    """Return the rows with descriptions, of those that there is time for, open ones first."""
    end_s = monotonic_s() + DESCRIBED_S
    ordered = list(rows)
    descriptions: dict[str, TransactionDescription] = {}
    for row in sorted(ordered, key=lambda row: not row.is_open):
        if monotonic_s() >= end_s:
            break
        try:
            descriptions[row.transactional_id] = client.transactions.describe(row.transactional_id, timeout_ms=1_000)
        except ClientError:
            continue  # expired meanwhile, or not allowed; the list is still of use
    return [
        TransactionRow(
            row.transactional_id, row.producer_id, row.state, row.coordinator, descriptions.get(row.transactional_id)
        )
        for row in ordered
    ]


def _ages(descriptions: Iterable[TransactionDescription]) -> Mapping[str, tuple[int, str]]:
    """Return the age of each open transaction in ms and as text, by transactional id."""
    now_ms = wall_ms()
    return {
        each.transactional_id: (now_ms - each.start_ms, ago_text(now_ms - each.start_ms))
        for each in descriptions
        if each.start_ms is not None and each.state in OPEN_STATES
    }


def _number(text: str, name: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        raise ValueError(f"The field {name!r} takes a number; found {text[:40]!r}.")
    return int(text)


ROUTES: Sequence[Route] = [
    Route("/transactions", transactions),
    Route("/transactions/hanging", hanging, methods=["GET"]),
    Route("/transactions/hanging", abort_hanging, methods=["POST"]),
    Route("/transactions/id/{id:path}/abort", abort, methods=["POST"]),
    Route("/transactions/id/{id:path}", transaction),
]
