"""The program and the commands of docs/share-groups.md."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from click.testing import CliRunner
from confluent_kafka import ShareConsumer

import kqueue
from kqueue.base.settings import Scope
from kqueue.cli.app import kqueue as root
from kqueue.config.catalog import CATALOG

TEXT = (Path(__file__).parents[3] / "docs" / "share-groups.md").read_text()


def block(language: str) -> str:
    (block_text,) = re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.M | re.S)
    return str(block_text)


def test_the_worker_handles_each_record_once() -> None:
    exec(compile(block("python"), "docs/share-groups.md", "exec"), {"__name__": "worker"})


def test_the_commands_look_at_a_group_and_move_it() -> None:
    with kqueue.Broker() as broker:
        broker.create_topic("jobs", 1)
        broker.topics["jobs"].produce_all(["a", "b"])
        with ShareConsumer({"bootstrap.servers": broker.bootstrap, "group.id": "workers"}) as consumer:
            consumer.subscribe(["jobs"])
            for _ in range(100):
                consumer.poll(timeout=0.1)
                listed = CliRunner().invoke(root, ["groups", "describe", "workers", "-b", broker.bootstrap])
                if "START-OFFSET" in listed.output:
                    break
        for line in block("text").splitlines():
            done = CliRunner().invoke(root, shlex.split(line)[1:], env={"KQUEUE_BOOTSTRAP": broker.bootstrap})
            assert done.exit_code == 0, (line, done.output)
        assert "workers" not in CliRunner().invoke(root, ["groups", "list", "-b", broker.bootstrap]).output


def test_the_settings_exist() -> None:
    named = set(re.findall(r"^\| `(share\.[a-z.]+)` \|", TEXT, re.M))
    assert named
    assert named <= {row.name for row in CATALOG.rows(Scope.GROUP).values()}
