"""The faults: each waits until it has had its effect, and leaves all brokers running."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from cluster_tests.cluster import STORE, TestedCluster, now_s
from cluster_tests.network import CLIENT, broker_name
from kqueue.client import TopicPartition
from kqueue.client.metadata import NO_LEADER
from kqueue.demo.broker_processes import BrokerFailed, until
from kqueue.testing.process_environment import process_environment

TOPIC = "log"
"""Its leaders are the victims."""
HOLD_S = 1.5
"""How long a fault lasts after its effect, or without one that can be waited for."""


class FaultPeriod(NamedTuple):
    """When a fault began, by the clock of histories, and when others led."""

    what: str
    began_s: float
    moved_s: float


@dataclass
class Scene:
    """What faults act on.

    Attributes:
        folder: for files of faults.
        killed: the periods in which a broker was killed: others had to take over.
        say: prints a line.
    """

    cluster: TestedCluster
    folder: Path
    rng: random.Random
    say: Callable[[str], None]
    killed: list[FaultPeriod] = field(default_factory=list)

    def leader(self) -> int:
        """A broker that leads something."""
        leaders = [one for one in self.cluster.leaders(TOPIC) if one != NO_LEADER]
        return self.rng.choice(leaders)

    def await_others(self, victim: int) -> float:
        """Return once others lead what a broker led. Returns: seconds it took."""
        return until("others lead", lambda: not {victim, NO_LEADER} & set(self.cluster.leaders(TOPIC, without=victim)))

    def await_servers(self) -> None:
        """Return once every server of ZooKeeper serves."""
        assert self.cluster.ensemble is not None
        for server in self.cluster.ensemble.servers:
            server.wait()


def kill(scene: Scene) -> None:
    """A leader is killed (SIGKILL), and started again once others lead."""
    victim = scene.leader()
    broker = scene.cluster.brokers[victim]
    began_s = now_s()
    broker.kill()
    moved_s = scene.await_others(victim)
    scene.killed.append(FaultPeriod(f"broker {victim} is killed", began_s, began_s + moved_s))
    scene.say(f"  broker {victim} is killed, others lead after {moved_s:.2f} s")
    time.sleep(HOLD_S)
    broker.start()


def kill_again(scene: Scene) -> None:
    """A broker is killed (SIGKILL) twice, the second time while it starts."""
    broker = scene.cluster.brokers[scene.leader()]
    broker.kill()
    broker.launch()
    time.sleep(scene.rng.uniform(0.2, 1.5))
    broker.kill()
    broker.start()


def kill_all(scene: Scene) -> None:
    """All brokers are killed (SIGKILL) at once, and started again."""
    scene.cluster.kill()
    for broker in scene.cluster.brokers.values():
        broker.launch()
    for broker in scene.cluster.brokers.values():
        broker.wait()


def pause(scene: Scene) -> None:
    """A leader is paused (SIGSTOP) until others lead, and then goes on (SIGCONT)."""
    victim = scene.leader()
    broker = scene.cluster.brokers[victim]
    broker.pause()
    try:
        moved_s = scene.await_others(victim)
        scene.say(f"  broker {victim} is paused, others lead after {moved_s:.2f} s")
        time.sleep(HOLD_S)
    finally:
        broker.resume()


def blink(scene: Scene) -> None:
    """A leader is paused again and again, each time for about as long as its session lasts."""
    broker = scene.cluster.brokers[scene.leader()]
    for _ in range(3):
        broker.pause()
        time.sleep(scene.cluster.session_s * scene.rng.uniform(0.7, 1.3))
        broker.resume()
        time.sleep(scene.rng.uniform(0.05, 0.5))


def part(scene: Scene) -> None:
    """A leader can't reach the other brokers; clients reach all, and all reach the store."""
    name = broker_name(scene.leader())
    _hold_parted(scene, lambda source, target: name in (source, target) and not {CLIENT, STORE} & {source, target})


def part_one_way(scene: Scene) -> None:
    """One broker can't reach one other."""
    source, target = map(broker_name, scene.rng.sample(sorted(scene.cluster.brokers), 2))
    _hold_parted(scene, lambda one, other: (one, other) == (source, target))


def part_from_store(scene: Scene) -> None:
    """A leader can reach neither the store's servers nor other brokers; clients still reach it."""
    victim = scene.leader()
    name = broker_name(victim)
    scene.cluster.network.part(lambda source, target: name in (source, target) and CLIENT not in (source, target))
    try:
        moved_s = scene.await_others(victim)
        scene.say(f"  broker {victim} is alone, others lead after {moved_s:.2f} s")
        time.sleep(HOLD_S)
    finally:
        scene.cluster.network.heal()


def cut(scene: Scene) -> None:
    """All connections to one broker after the other are reset."""
    for number in scene.cluster.brokers:
        scene.cluster.network.cut(broker_name(number))
        time.sleep(scene.rng.uniform(0.05, 0.3))


def disk_full(scene: Scene) -> None:
    """The disk of a leader is full for a while."""
    if not scene.cluster.disks_are_bounded:
        scene.say("  left out, because only root may mount small disks")
        return
    with scene.cluster.full_disk(scene.leader()):
        time.sleep(2 * HOLD_S)


def rolling_restart(scene: Scene) -> None:
    """Each broker is stopped (SIGTERM) and started again, when all replicas are in sync."""
    for broker in scene.cluster.brokers.values():
        scene.cluster.await_all()
        broker.stop()
        broker.start()


def reassign(scene: Scene) -> None:
    """Every partition moves to other brokers, by `kqueue cluster reassign`."""
    with scene.cluster.client() as client:
        topics = client.metadata(None).topics
    numbers = sorted(scene.cluster.brokers)
    plan = {one: scene.rng.sample(numbers, 3) for topic in topics.values() for one in topic.topic_partitions}
    file = scene.folder / "plan.json"
    file.write_text(json.dumps({"version": 1, "partitions": [_row(one, to) for one, to in plan.items()]}))
    _command(scene, "cluster", "reassign", "run", str(file), "--wait")
    _command(scene, "cluster", "reassign", "verify", str(file))


def zookeeper_server_killed(scene: Scene) -> None:
    """A server of ZooKeeper is killed, and started again."""
    assert scene.cluster.ensemble is not None
    server = scene.rng.choice(scene.cluster.ensemble.servers)
    server.kill()
    time.sleep(2 * HOLD_S)
    server.launch()
    scene.await_servers()


def zookeeper_without_quorum(scene: Scene) -> None:
    """Two of three servers of ZooKeeper are killed, for longer than sessions last."""
    assert scene.cluster.ensemble is not None
    down = scene.rng.sample(scene.cluster.ensemble.servers, 2)
    for server in down:
        server.kill()
    time.sleep(scene.cluster.session_s + 2 * HOLD_S)
    for server in down:
        server.launch()
    scene.await_servers()


def kill_without_quorum(scene: Scene) -> None:
    """A leader is killed while ZooKeeper has no quorum, so that nobody can be elected."""
    assert scene.cluster.ensemble is not None
    broker = scene.cluster.brokers[scene.leader()]
    down = scene.rng.sample(scene.cluster.ensemble.servers, 2)
    for server in down:
        server.kill()
    time.sleep(HOLD_S)
    broker.kill()
    time.sleep(HOLD_S)
    for server in down:
        server.launch()
    scene.await_servers()
    broker.start()


def postgres_server_killed(scene: Scene) -> None:
    """PostgreSQL is killed, and started again after longer than sessions last."""
    assert scene.cluster.postgres is not None
    scene.cluster.postgres.kill()
    time.sleep(scene.cluster.session_s + HOLD_S)
    scene.cluster.postgres.start()


Fault = Callable[[Scene], None]
FAULTS: dict[str, Fault] = {
    fault.__name__.replace("_", "-"): fault
    for fault in (
        kill,
        pause,
        part,
        cut,
        disk_full,
        rolling_restart,
        reassign,
        blink,
        part_one_way,
        kill_again,
        kill_all,
    )
}
"""With any store."""
ZOOKEEPER_FAULTS: dict[str, Fault] = {
    fault.__name__.replace("_", "-"): fault
    for fault in (part_from_store, zookeeper_server_killed, zookeeper_without_quorum, kill_without_quorum)
}
"""With ZooKeeper, beside the others."""


def _hold_parted(scene: Scene, is_parted: Callable[[str, str], bool]) -> None:
    scene.cluster.network.part(is_parted)
    time.sleep(3 * HOLD_S)
    scene.cluster.network.heal()


def _row(partition: TopicPartition, replicas: list[int]) -> dict[str, object]:
    return {"topic": partition.topic, "partition": partition.partition, "replicas": replicas}


def _command(scene: Scene, *words: str) -> None:
    """Run a command of kqueue. Raises: BrokerFailed: it failed."""
    result = subprocess.run(
        [sys.executable, "-m", "kqueue.cli", *words, "--bootstrap-server", scene.cluster.bootstrap],
        capture_output=True,
        text=True,
        env=process_environment(),
        timeout=120,
        check=False,
    )
    if result.returncode != 0:
        raise BrokerFailed(f"kqueue {' '.join(words)}: {result.stdout}{result.stderr}")


def disk_lost(scene: Scene) -> None:
    """A leader is killed (SIGKILL), its data deleted, and it starts with an empty disk."""
    victim = scene.leader()
    broker = scene.cluster.brokers[victim]
    broker.kill()
    scene.await_others(victim)
    for path in broker.data.iterdir():  # the folder itself may be a disk
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    broker.start()


TIER_FAULTS: dict[str, Fault] = {"disk-lost": disk_lost}
"""With a tier, beside the others."""

POSTGRES_FAULTS: dict[str, Fault] = {
    fault.__name__.replace("_", "-"): fault for fault in (part_from_store, postgres_server_killed)
}
"""With PostgreSQL, beside the others."""
