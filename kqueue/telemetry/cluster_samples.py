"""Samples of a broker as a member of its cluster."""

from __future__ import annotations

from kqueue.broker.broker import Broker
from kqueue.broker.member import Member
from kqueue.telemetry.samples import Samples


def read_cluster(samples: Samples, broker: Broker) -> None:
    """Read controller, session with the store, and changes of in-sync sets. A single broker is its
    own controller, and has no session.
    """
    all_brokers = broker.metadata.cluster.all()
    fenced = sum(one.fenced for one in all_brokers)
    samples.add("kqueue_cluster_brokers", len(all_brokers) - fenced, "active")
    samples.add("kqueue_cluster_brokers", fenced, "fenced")
    member = broker.member
    if not isinstance(member, Member):
        samples.add("kqueue_active_controller", 1)
        return
    samples.add("kqueue_active_controller", int(member.controller.term is not None))
    samples.add("kqueue_store_session", int(member.registration.session is not None and member.store_error is None))
    samples.add("kqueue_store_sessions", member.registration.sessions_begun)
    samples.add("kqueue_unfenced", int(member.is_unfenced))
    samples.add("kqueue_isr_changes", member.isr_changes.shrinks, "shrink")
    samples.add("kqueue_isr_changes", member.isr_changes.expansions, "expand")
