"""One round: a new cluster, all workloads, faults one after the other; then all is checked."""

from __future__ import annotations

import contextlib
import random
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cluster_tests import checkers
from cluster_tests.cluster import TIERED_TOPIC, LeaderLog, TestedCluster
from cluster_tests.faults import FAULTS, POSTGRES_FAULTS, TIER_FAULTS, ZOOKEEPER_FAULTS, Scene
from cluster_tests.workloads.bank import BankWorkload
from cluster_tests.workloads.log import LogWorkload
from cluster_tests.workloads.table import TableWorkload
from compat_tests.postgres.server import Server as PostgresServer
from compat_tests.zookeeper.server import Ensemble
from kqueue.log_tools.comparison import compare
from kqueue.log_tools.tier.inventory import tier_inventory
from kqueue.log_tools.tier.verification import verify_tier
from kqueue.tier.stores.address import open_store

QUIET_S = 1.0
"""Between two faults, and before the first."""
SLACK_S = 2.0
"""Clients may wait that much longer than a session lasts after a kill."""
ERRORS = re.compile(r"^.*(?: ERROR | CRITICAL |Traceback).*$", re.MULTILINE)

EXPECTED = ("ENOSPC", "check that a majority of its servers runs", "can't use PostgreSQL")
"""What errors may say: that a disk is full, and that ZooKeeper or PostgreSQL is away."""


@dataclass
class RoundResult:
    """What a round did and found.

    Attributes:
        violations: of what must hold; empty: none.
        waits_s: longest time without a confirmation of some partition, by kill.
        counts: by workload.
        logged: the lines of brokers that say ERROR, but for EXPECTED ones.
    """

    faults: Sequence[str]
    violations: list[str] = field(default_factory=list)
    waits_s: dict[str, float] = field(default_factory=dict)
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    logged: list[str] = field(default_factory=list)
    seconds: float = 0.0


def play(
    folder: Path,
    names: Sequence[str],
    *,
    ensemble: Ensemble | None = None,
    postgres: PostgresServer | None = None,
    seed: int = 0,
    settings: Mapping[str, object],
    has_tier: bool = False,
    say: Callable[[str], None] = print,
) -> RoundResult:
    """Play one round.

    Args:
        folder: new; holds the data afterwards if it is not on small disks.
        names: of the faults, in order.
        ensemble, postgres: for the store; None: SQLite.
        settings: of the brokers.
        has_tier: the topics that are not compacted are tiered, and the tier is verified at the end.
    Raises: BrokerFailed, ClientError, WorkloadFailed: it could not be played to the end.
    """
    began_s = time.monotonic()
    result = RoundResult(names)
    with TestedCluster(folder, ensemble, settings, postgres, has_tier=has_tier) as cluster:
        scene = Scene(cluster, folder, random.Random(seed), say)
        log = LogWorkload(cluster.bootstrap)
        workloads = [log, BankWorkload(cluster.bootstrap), TableWorkload(cluster.bootstrap)]
        for workload in workloads:
            is_tiered = has_tier and not isinstance(workload, TableWorkload)
            workload.create(TIERED_TOPIC if is_tiered else None)
        cluster.await_all()
        with contextlib.ExitStack() as stack:
            leaders = stack.enter_context(LeaderLog(cluster))
            for workload in workloads:
                stack.enter_context(workload)
            _make_faults(scene, names)
        for workload in workloads:
            result.violations += workload.check()
            result.counts[workload.topic] = workload.counts()
        result.violations += checkers.contested(leaders.seen)
        result.counts["leaders"] = {"asked": len(leaders.seen), "epochs": len({one[1:3] for one in leaders.seen})}
        for period in scene.killed:
            result.waits_s[period.what] = log.confirmations.longest_gap_s(period.began_s, period.moved_s)
        cluster.stop()
        result.violations += _compared(cluster)
        if cluster.tier_url is not None:
            result.counts["tier"] = _verify_tier(cluster.tier_url, result.violations)
        lines = [line for broker in cluster.brokers.values() for line in ERRORS.findall(broker.said())]
        result.logged = [line for line in lines if not any(words in line for words in EXPECTED)]
    result.seconds = time.monotonic() - began_s
    return result


def limit_s(settings: Mapping[str, object]) -> float:
    """How long clients may wait after a kill."""
    return int(str(settings.get("broker.session.timeout.ms", 9000))) / 1000 + SLACK_S


def _make_faults(scene: Scene, names: Sequence[str]) -> None:
    for name in names:
        time.sleep(QUIET_S)
        fault = {**FAULTS, **ZOOKEEPER_FAULTS, **POSTGRES_FAULTS, **TIER_FAULTS}[name]
        scene.say(f"{name}: {(fault.__doc__ or '').strip()}")
        fault(scene)
        back_s = scene.cluster.await_all()
        scene.say(f"  all replicas are in sync {back_s:.1f} s after it")
    time.sleep(QUIET_S)


def _compared(cluster: TestedCluster) -> list[str]:
    report = compare(cluster.data_folders)
    violations = [f"the logs of {one.name} differ: {one.difference}" for one in report.different]
    if not report.partitions:
        violations.append("there is no log to compare")
    return violations


def _verify_tier(url: str, violations: list[str]) -> dict[str, int]:
    """Add what is wrong in the tier to the violations; return what is in it."""
    store = open_store(url)
    try:
        report = verify_tier(store, checksums=True)
        violations += [f"the tier: {finding}" for finding in report.verification.errors]
        partitions = [one for topic in tier_inventory(store) for one in topic.partitions]
    finally:
        store.close()
    counts = {"segments": sum(one.segments for one in partitions), "orphans": len(report.orphans)}
    if counts["segments"] < len(partitions) or not partitions:
        violations.append(f"the tier has {counts['segments']} segments of {len(partitions)} partitions")
    return counts
