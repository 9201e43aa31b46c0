"""`python -m benchmarks.assignors`: what the server-side assignors take for 1,000 members and
10,000 partitions, first and after 100 members left, and their longest step without a yield.

Processor time, without garbage collection. Target: no step above 5 ms.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Mapping
from typing import NamedTuple

from kqueue.groups.assignors import ASSIGNORS, Assignment, AssignorMember, AssignorTopic

MEMBERS, LEAVING, TOPICS, PARTITIONS = 1000, 100, 100, 100


class Run(NamedTuple):
    """One assignment: its result, and the processor time of all of it and of its longest step."""

    assignment: Assignment
    all_ms: float
    step_ms: float


def run(name: str, members: list[AssignorMember], topics: Mapping[bytes, AssignorTopic]) -> Run:
    work, step_s, begun_s = ASSIGNORS.get(name)().assign(members, topics), 0.0, time.process_time()
    last_s = begun_s
    while True:
        try:
            next(work)
        except StopIteration as end:
            return Run(end.value, 1000 * (time.process_time() - begun_s), 1000 * step_s)
        now_s = time.process_time()
        step_s, last_s = max(step_s, now_s - last_s), now_s


def main() -> None:
    rng = random.Random(1)
    ids = [rng.randbytes(16) for _ in range(TOPICS)]
    topics = {id: AssignorTopic(id, f"t{number}", PARTITIONS) for number, id in enumerate(ids)}
    gc.disable()
    for kind, share in (("the same topics", TOPICS), ("half of the topics each", TOPICS // 2)):
        for name in ("uniform", "range"):
            members = [
                AssignorMember(f"m{number:04}", None, None, frozenset(rng.sample(ids, share)), {})
                for number in range(MEMBERS)
            ]
            first = run(name, members, topics)
            settled = [
                member._replace(
                    current={id: frozenset(indexes) for id, indexes in first.assignment[member.member_id].items()}
                )
                for member in members[LEAVING:]
            ]
            second = run(name, settled, topics)
            print(
                f"{name}, {kind}: {first.all_ms:.0f} ms, longest step {first.step_ms:.1f} ms; "
                f"{LEAVING} leave: {second.all_ms:.0f} ms, {second.step_ms:.1f} ms",
                flush=True,
            )


if __name__ == "__main__":
    main()
