"""Makes the runs of the report card, in an environment with clients.

    python -m compat_tests.report_card_run --client aiokafka --run single

It runs the cases in memory and on disk (`single`), on a cluster, secured, and on Apache Kafka, each
with every client that is named, and puts what it sees on the card. Runs that can't be made here are
named, and their cells stay as they are.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from compat_tests import report_card
from compat_tests.clients import adapters
from compat_tests.kafka import jvm
from compat_tests.kafka.node import Kafka

CASES = Path(__file__).parent / "clients"
SINGLE, CLUSTER, SECURED, KAFKA = "single", "cluster", "secured", "kafka"
OPTIONS = {SINGLE: (), CLUSTER: ("--cluster",), SECURED: ("--secure",)}
SESSION_MS = 2_000
KAFKA_SETTINGS = {
    "group.initial.rebalance.delay.ms": 100,
    "group.min.session.timeout.ms": 500,
    "group.share.assignment.interval.ms": 100,
    "group.share.heartbeat.interval.ms": 200,
    "group.share.min.heartbeat.interval.ms": 100,
    "group.share.min.record.lock.duration.ms": 1000,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "auto.create.topics.enable": "true",
}
"""As compat_tests/clients/README.md says; the defaults would take minutes."""


@contextlib.contextmanager
def options_of(run: str, folder: Path) -> Iterator[tuple[str, ...]]:
    """Yield the options of pytest for a run. Kafka runs meanwhile, if the run is on it."""
    if run != KAFKA:
        yield OPTIONS[run]
        return
    node = Kafka(folder / "kafka", KAFKA_SETTINGS)
    node.format()
    with node:
        yield f"--bootstrap={node.bootstrap}", f"--session-ms={SESSION_MS}"


def why_not(run: str) -> str | None:
    """Return why a run can't be made here; None: it can."""
    return jvm.missing() if run == KAFKA else None


def make(run: str, client: str, workers: int) -> list[report_card.Run]:
    """Run the cases, whose output is seen; return what they have shown, failed ones too."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "report.json"
        with options_of(run, folder) as options:
            command = [
                sys.executable, "-m", "pytest", str(CASES), "-q", "-n", str(workers),
                "--reruns", "1", f"--client={client}", f"--report={file}", *options,
            ]  # fmt: skip
            subprocess.run(command, check=False, cwd=report_card.ROOT, env=dict(os.environ))
        return report_card.load(file)


def main(arguments: list[str] | None = None) -> None:
    """Make the runs that are asked for, and keep each as soon as it has ended."""
    runs = (*OPTIONS, KAFKA)
    parser = argparse.ArgumentParser(prog="python -m compat_tests.report_card_run", description=__doc__)
    parser.add_argument("--client", action="append", choices=sorted(adapters.MODULES), help="default: all of them")
    parser.add_argument("--run", action="append", choices=runs, help="default: all of them")
    parser.add_argument("--workers", type=int, default=4, help="processes of pytest (default: %(default)s)")
    options = parser.parse_args(arguments)
    for run in options.run or runs:
        reason = why_not(run)
        if reason is not None:
            print(f"skipped, because {reason}: {run}")
            continue
        for client in options.client or sorted(adapters.MODULES):
            report_card.keep(make(run, client, options.workers))


if __name__ == "__main__":
    main()
