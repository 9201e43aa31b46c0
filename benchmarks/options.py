"""The options of `python -m benchmarks`."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.peers import PEERS

BROKER, CLUSTER, LOG, KIT, SECURITY, SPARK = "broker", "cluster", "log", "kit", "security", "spark"
SPARK_CLUSTER, GROWTH, TIER = "spark-cluster", "growth", "tier"


def _peers(text: str) -> list[str]:
    names = text.split(",")
    if unknown := set(names) - set(PEERS):
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: choose from {', '.join(PEERS)}")
    return names


def parse(arguments: list[str] | None, description: str | None) -> argparse.Namespace:
    """Return the options. Raises: SystemExit: they contradict each other."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=description)
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="measure this broker instead of a new kqueue")
    parser.add_argument("--against", metavar="NAMES", type=_peers, help=f"of {', '.join(PEERS)}")
    parser.add_argument("--compiled", action="store_true", help="with --against: kqueue compiled by mypyc, too")
    parser.add_argument(
        "--only",
        choices=(BROKER, CLUSTER, LOG, KIT, SECURITY, TIER, SPARK, SPARK_CLUSTER, GROWTH),
        help="one of the groups; security: TLS, SCRAM, authorizer, quotas, audit log; spark, spark-cluster and growth "
        "run only if they are named; with --against: broker or cluster",
    )
    parser.add_argument(
        "--quick", action="store_true", help="a small part of the sizes of log, tier, spark, growth and --against"
    )
    parser.add_argument(
        "--json", metavar="FILE", type=Path, help="save the figures in this file too; in a folder, if there are several"
    )
    parser.add_argument("--keep", action="store_true", help="keep the figures, and renew docs/benchmarks.md")
    options = parser.parse_args(arguments)
    if options.against and options.only not in (None, BROKER, CLUSTER):
        parser.error("--against compares broker and cluster")
    if options.compiled and not (options.against and options.only in (None, BROKER)):
        parser.error("--compiled is for --against")
    if options.keep and not (options.against or options.only in (GROWTH, KIT)):
        parser.error("--keep is for --against, --only growth and --only kit")
    return options
