from __future__ import annotations

import inspect

from kqueue.records.partitioners import PARTITIONERS
from kqueue.records.partitioners.contract import Partitioner


def test_built_in_partitioners_take_what_the_contract_says() -> None:
    promised = list(inspect.signature(Partitioner.partition).parameters.values())
    for entry in PARTITIONERS:
        if entry.origin == "kqueue":
            assert list(inspect.signature(entry.value.partition).parameters.values()) == promised, entry.name  # type: ignore[attr-defined]
