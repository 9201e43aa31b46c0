"""Plans of reassignments, in the JSON of kafka-reassign-partitions.

    {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2, 3]}]}

A partition may have ``log_dirs``, too. They are not used: brokers choose their data folders.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

import click

if TYPE_CHECKING:
    from kqueue.client import TopicPartition

PLAN_SIZE_MAX = 64 << 20
ANY_LOG_DIR = "any"

Plan = dict["TopicPartition", tuple[int, ...]]


def read_json(stream: TextIO, what: str) -> Any:
    """Read a JSON document. Raises ClickException: it is too large, or none."""
    text = stream.read(PLAN_SIZE_MAX + 1)
    if len(text) > PLAN_SIZE_MAX:
        raise click.ClickException(f"{stream.name}: a {what} has at most {PLAN_SIZE_MAX >> 20} MiB")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.ClickException(f"{stream.name}: expected a {what} in JSON: {error}") from None


def read_plan(stream: TextIO) -> Plan:
    """Read a plan. Raises ClickException: names the first part that is wrong."""
    from kqueue.client import TopicPartition

    document = read_json(stream, "plan")
    if not isinstance(document, dict) or document.get("version") != 1:
        raise click.ClickException(f'{stream.name}: expected {{"version": 1, "partitions": [...]}}')
    plan: Plan = {}
    chosen = False
    for number, row in enumerate(rows_of(document, "partitions", stream)):
        try:
            partition = TopicPartition(_text(row["topic"]), _number(row["partition"]))
            replicas = tuple(map(_number, row["replicas"]))
            chosen |= any(place != ANY_LOG_DIR for place in row.get("log_dirs") or ())
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise click.ClickException(
                f'{stream.name}: partitions[{number}]: expected {{"topic": NAME, "partition": N, '
                f'"replicas": [ID, ...]}}: {error!r}'
            ) from None
        if partition in plan:
            raise click.ClickException(f"{stream.name}: {partition} is there twice")
        if not replicas or len(set(replicas)) < len(replicas):
            raise click.ClickException(f"{stream.name}: {partition}: expected one or more brokers, each once")
        plan[partition] = replicas
    if not plan:
        raise click.ClickException(f"{stream.name}: the plan has no partition")
    if chosen:
        click.echo(f"{stream.name}: log_dirs are not used; `kqueue log-dirs move` moves logs between folders", err=True)
    return plan


def rows_of(document: Any, key: str, stream: TextIO) -> list[Any]:
    """Return the list under a key. Raises ClickException: there is none."""
    rows = document.get(key) if isinstance(document, dict) else None
    if not isinstance(rows, list):
        raise click.ClickException(f'{stream.name}: expected a list under "{key}"')
    return rows


def plan_document(plan: Mapping[TopicPartition, Sequence[int]]) -> dict[str, Any]:
    """Return a plan as kafka-reassign-partitions writes it."""
    rows = [
        {
            "topic": name,
            "partition": index,
            "replicas": list(replicas),
            "log_dirs": [ANY_LOG_DIR] * len(replicas),
        }
        for (name, index), replicas in sorted(plan.items())
    ]
    return {"version": 1, "partitions": rows}


def plan_text(plan: Mapping[TopicPartition, Sequence[int]]) -> str:
    """Return `plan_document` on one line."""
    return json.dumps(plan_document(plan), separators=(",", ":"))


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
        raise ValueError(f"{value!r} is no number from 0 on")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no name")
    return value
