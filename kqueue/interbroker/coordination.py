"""Connects the coordinators of a broker with those of the other brokers of its cluster."""

from __future__ import annotations

from functools import partial

from kqueue.broker.broker import Broker
from kqueue.interbroker.contract import Peers
from kqueue.interbroker.leader_offsets import ask_high_watermark
from kqueue.interbroker.share_states import PeerShareStates
from kqueue.interbroker.transactions import PeerTransactions


def connect_coordinators(broker: Broker, peers: Peers) -> None:
    """Let a member of a cluster reach other brokers' parts of its transactions and share groups.
    Call it once, before the first request. It joins parts that do not know of each other, so it
    has the broker.
    """
    transactions = PeerTransactions(peers, broker.metadata.cluster, broker.scheduler.purgatory.wake)
    broker.coordinators.marker_router.remote = transactions
    broker.coordinators.transaction_partitions.remote = transactions
    broker.share.states.remote = PeerShareStates(peers, broker.metadata.cluster)
    broker.share.ask_end = partial(ask_high_watermark, peers)
