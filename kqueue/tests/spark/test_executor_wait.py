from __future__ import annotations

import re
import socket

import pytest

from kqueue.spark.errors import PipelineFailed
from kqueue.spark.executor_wait import NOTE_AFTER_S, Waiting, asked_for, check_master
from kqueue.tests.tables import for_each

ASKED = "an executor is to have 1g"


def test_missing_executors_are_reported_once_and_their_arrival_too() -> None:
    told: list[str] = []
    waiting = Waiting(ASKED, told.append, None)
    for now in (100, 101, 100 + NOTE_AFTER_S - 1):
        waiting.look(True, 0, now)
    assert told == []
    waiting.look(True, 0, 100 + NOTE_AFTER_S)
    waiting.look(True, 0, 100_000)
    assert told == [f"The cluster has given no executor for 15 s, and the job waits: {ASKED}."]
    waiting.look(True, 2, 100_001)
    waiting.look(True, 2, 100_002)
    assert told[1:] == ["The cluster has given 2 executors: the job goes on."]
    assert waiting.given_up is None


def test_wait_restarts_after_executors_and_without_work() -> None:
    told: list[str] = []
    waiting = Waiting(ASKED, told.append, 20)
    waiting.look(True, 0, 0)
    waiting.look(True, 1, 14)
    waiting.look(True, 0, 15)
    waiting.look(False, 0, 29)  # an idle job whose executors were taken back
    waiting.look(True, 0, 30)
    waiting.look(True, 0, 44)
    assert told == []
    waiting.look(True, 0, 45)
    assert len(told) == 1
    assert waiting.given_up is None
    waiting.look(True, 0, 50)
    assert waiting.given_up == f"the cluster has given no executor for 20 s: {ASKED}"


@for_each(
    "master, settings, words",
    [
        ("spark://h:7077", {}, "have 1g of memory (spark.executor.memory) and all free cores of a worker, at least 1 "),
        ("spark://h:7077", {"spark.executor.memory": "9g"}, "9g of memory (spark.executor.memory)"),
        ("spark://h:7077", {}, "spark://h:7077 may have no machine with as much to spare: end other applications, or"),
        ("yarn", {"spark.executor.cores": "3"}, "and 3 (spark.executor.cores), and yarn may have no machine"),
        (
            "k8s://h",
            {},
            "and 1 (spark.executor.cores), and k8s://h may have no machine with as much to spare: make room",
        ),
    ],
)
def test_requested_executors_are_named(master: str, settings: dict[str, str], words: str) -> None:
    assert words in asked_for(master, settings)


def test_a_master_that_does_not_answer_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as there, socket.create_server(("127.0.0.1", 0)) as gone:
        masters = [f"127.0.0.1:{one.getsockname()[1]}" for one in (there, gone)]
        gone.close()
        check_master(f"spark://{masters[1]},{masters[0]}", 0)
        with pytest.raises(
            PipelineFailed, match=rf"answers at spark://{masters[1]} \({masters[1]}: Connection refused"
        ):
            check_master(f"spark://{masters[1]}", 0.1)
    with pytest.raises(PipelineFailed, match="no master of a Spark cluster answers at spark://127.0.0.1:99999"):
        check_master("spark://127.0.0.1:99999", 0)


def test_wrong_master_is_refused_by_name() -> None:
    known = ("", "yarn", "k8s://https://127.0.0.1:1", "local", "local[2]", "local[*]", "local[2, 4]", "local[*,1]")
    for master in (*known, "local-cluster[2,1,1024]", "local-cluster[2, 1, 1024]"):
        check_master(master, 0)
    wrong = (
        "127.0.0.1:7077",
        "sparks://h:7077",
        "http://h:7077",
        "spark://without-port",
        "local[x]",
        "local2",
        "k8s:h",
    )
    for master in (*wrong, "local-cluster[2,1]"):
        with pytest.raises(PipelineFailed, match=rf"^'{re.escape(master)}' is no master of Spark: expected local\[2\]"):
            check_master(master, 0)
