from __future__ import annotations

from kqueue.config.properties import SourcedValue
from kqueue.supervisor.messages import WorkerOrder, encode


def test_an_order_is_one_line_and_comes_back() -> None:
    order = WorkerOrder(
        number=1,
        settings={"log.dirs": SourcedValue("/data/a\n", "server.properties line 3")},
        own={"PLAINTEXT": 5},
        shared={"PLAINTEXT": 4},
        nodes=(1, 2),
        topics={"orders": 3, "payments": None},
        verbose=True,
        stop_s=80.0,
    )
    line = order.to_line()
    assert line.index(b"\n") == len(line) - 1
    assert WorkerOrder.from_line(line) == order
    assert encode("open") == b'"open"\n'
