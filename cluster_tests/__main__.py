"""The long round: `python -m cluster_tests --minutes 60`. Rounds of random faults, each on a new
cluster, until the time is over or one finds a violation. The exit status says whether one did.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from cluster_tests.cluster import FAST, new_ensemble
from cluster_tests.faults import FAULTS, POSTGRES_FAULTS, TIER_FAULTS, ZOOKEEPER_FAULTS, Fault
from cluster_tests.round import RoundResult, limit_s, play
from cluster_tests.workloads.workload import WorkloadFailed
from compat_tests.postgres import server as postgres_server
from compat_tests.postgres.server import Server as PostgresServer
from compat_tests.zookeeper import server
from compat_tests.zookeeper.server import Ensemble
from kqueue.base.errors import KqueueError
from kqueue.cli.signals import interrupt_on_signal

FAULTS_PER_ROUND = 6
STORE_FAULTS: dict[str, dict[str, Fault]] = {
    "sqlite": {},
    "zookeeper": ZOOKEEPER_FAULTS,
    "postgres": POSTGRES_FAULTS,
}
"""The stores, and the faults that only they have."""
INTERRUPTED = 130


class LongRound:
    """All rounds, and their sums."""

    def __init__(self, seed: int, stores: list[str], names: list[str], *, has_tier: bool) -> None:
        self.rounds = 0
        self.made: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.waits_s: dict[str, list[float]] = {store: [] for store in stores}
        self._seed = seed
        self._stores = stores
        self._names = names
        self._has_tier = has_tier

    def play_one(self) -> bool:
        """Play the next round. Returns: whether all was well; else its folder is kept."""
        seed = self._seed + self.rounds
        rng = random.Random(seed)
        store = self._stores[self.rounds % len(self._stores)]
        has_tier = self._has_tier
        possible = self._names or [*FAULTS, *STORE_FAULTS[store], *(TIER_FAULTS if has_tier else ())]
        names = rng.choices(possible, k=FAULTS_PER_ROUND)
        folder = Path(tempfile.mkdtemp(prefix="kqueue-cluster-"))
        print(f"\nround {self.rounds + 1}: seed {seed}, {store}", flush=True)
        try:
            with _server(store, folder) as (ensemble, postgres):
                result = play(
                    folder / "brokers",
                    names,
                    ensemble=ensemble,
                    postgres=postgres,
                    seed=seed,
                    settings=FAST,
                    has_tier=has_tier,
                    say=_say,
                )
        except (KqueueError, WorkloadFailed, OSError) as error:
            print(f"round {self.rounds + 1} could not be played: {error}\nits folder is {folder}")
            return False
        self._add(store, result)
        violations = [*result.violations, *_slow(result), *result.logged]
        for violation in violations:
            print(f"  VIOLATION: {violation}")
        if violations:
            print(
                f"the folder is {folder}; again: python -m cluster_tests --seed {seed} --rounds 1 --store {store}"
                f"{' --tier' if has_tier else ''}"
            )
            return False
        shutil.rmtree(folder)
        return True

    def _add(self, store: str, result: RoundResult) -> None:
        self.rounds += 1
        self.made.update(result.faults)
        self.waits_s[store] += result.waits_s.values()
        for topic, counts in result.counts.items():
            self.counts.update({f"{topic}: {what}": count for what, count in counts.items()})
        _say(f"  {result.seconds:.0f} s, {result.counts}")

    def report(self) -> None:
        """Print what was done."""
        print(f"\n{self.rounds} rounds, {self.made.total()} faults:")
        for name, count in sorted(self.made.items()):
            print(f"{count:8,}  {name}")
        for what, count in sorted(self.counts.items()):
            print(f"{count:12,}  {what}")
        for store, waits_s in self.waits_s.items():
            if waits_s:
                print(f"after {len(waits_s)} kills clients waited {max(waits_s):.2f} s at most, over {store}")


def _slow(result: RoundResult) -> list[str]:
    return [
        f"clients waited {wait_s:.1f} s: {what}" for what, wait_s in result.waits_s.items() if wait_s > limit_s(FAST)
    ]


@contextlib.contextmanager
def _server(store: str, folder: Path) -> Iterator[tuple[Ensemble | None, PostgresServer | None]]:
    if store == "zookeeper":
        with new_ensemble(folder / "zookeeper") as ensemble:
            yield ensemble, None
    elif store == "postgres":
        with PostgresServer({"fsync": "off"}) as postgres:  # no power is cut here
            yield None, postgres
    else:
        yield None, None


def _missing() -> dict[str, str]:
    """Return the stores that can't be run here, and why."""
    reasons = {"zookeeper": server.missing(), "postgres": postgres_server.missing()}
    return {store: reason for store, reason in reasons.items() if reason}


def _say(line: str) -> None:
    print(line, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m cluster_tests", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="begin no round after so long (60)")
    parser.add_argument("--rounds", type=int, default=sys.maxsize, help="at most so many rounds")
    parser.add_argument("--seed", type=int, default=None, help="of the first round; the next ones count on")
    parser.add_argument("--store", choices=STORE_FAULTS, help="only this one; else all that can be run, in turn")
    parser.add_argument("--tier", action="store_true", help="tier the topics that are not compacted, in a folder")
    parser.add_argument(
        "--fault",
        action="append",
        choices={name: None for faults in (FAULTS, *STORE_FAULTS.values(), TIER_FAULTS) for name in faults},
        help="only these",
    )
    return parser.parse_args()


def main() -> int:
    """Run, and return the exit status."""
    arguments = _arguments()
    missing = _missing()
    for store, reason in missing.items():
        print(f"without {store}, because {reason}")
    stores = [store for store in STORE_FAULTS if arguments.store in (None, store) and store not in missing]
    if not stores:
        return 1
    seed = random.randrange(10**6) if arguments.seed is None else arguments.seed
    ends_s = time.monotonic() + 60 * arguments.minutes
    all_rounds = LongRound(seed, stores, arguments.fault or [], has_tier=arguments.tier)
    is_good = True
    try:
        with interrupt_on_signal():
            while is_good and time.monotonic() < ends_s and all_rounds.rounds < arguments.rounds:
                is_good = all_rounds.play_one()
    except KeyboardInterrupt:
        all_rounds.report()
        return INTERRUPTED
    all_rounds.report()
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
