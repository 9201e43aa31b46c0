from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import Result

from kqueue import Broker
from kqueue.cli.partitioner_choice import follow_topic, load_partitioner
from kqueue.records.partitioners import as_client_partitioner
from kqueue.records.partitioners.round_robin import RoundRobinPartitioner
from kqueue.tests.cli.plugins.installed import add_distribution

Kq = Callable[..., Result]
MODULE = """\
class Last:
    def __init__(self, rng):
        pass

    def partition(self, key, count, *, available=None, value=None, topic=""):
        return count - 1
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An importable module with the partitioner `Last`."""
    (tmp_path / "module_with_last.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "module_with_last", raising=False)
    return "module_with_last"


def test_partitioner_is_loaded_by_name_or_path(module: str) -> None:
    assert [load_partitioner("round_robin")(b"k", range(3), None) for _ in range(2)] == [0, 0]
    assert load_partitioner(f"{module}:Last")(b"k", range(5), None) == 4


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("round_robbin", "did you mean 'round_robin'"),
        ("no_such_module:X", "no_such_module"),
        ("module_with_last:First", "First"),
    ],
)
@pytest.mark.usefixtures("module")
def test_unavailable_partitioner_is_one_sentence(text: str, words: str) -> None:
    with pytest.raises(click.BadParameter) as refused:
        load_partitioner(text)
    assert words in refused.value.message
    assert refused.value.param_hint == "--partitioner"


def test_the_topics_own(bootstrap: str) -> None:
    placing = as_client_partitioner()
    with Broker() as broker:
        broker.create_topic("orders", 3, kqueue_partitioner="round_robin")
        follow_topic(placing, broker.bootstrap, "orders")
    assert isinstance(placing.partitioner, RoundRobinPartitioner)


@pytest.mark.parametrize("answer", [{}, {"topic": {}}, {"topic": {"orders": {}}}])
def test_brokers_that_have_no_such_setting_leave_the_default(
    monkeypatch: pytest.MonkeyPatch, answer: dict[str, object]
) -> None:
    with Broker() as broker:
        stub_settings(monkeypatch, answer)
        placing = as_client_partitioner()
        before = placing.partitioner
        follow_topic(placing, broker.bootstrap, "orders")
    assert placing.partitioner is before


def stub_settings(monkeypatch: pytest.MonkeyPatch, answer: dict[str, object]) -> None:
    """Make every broker return this response to a request for settings."""
    from kafka import KafkaAdminClient

    monkeypatch.setattr(KafkaAdminClient, "describe_configs", lambda self, resources, **options: answer)


@pytest.mark.usefixtures("module")
def test_a_broker_can_not_have_a_module_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    with Broker() as broker:
        stub_settings(monkeypatch, {"topic": {"orders": {"kqueue.partitioner": {"value": "module_with_last:Last"}}}})
        with pytest.raises(
            click.ClickException, match="the partitioner 'module_with_last:Last' .* is not installed here"
        ):
            follow_topic(as_client_partitioner(), broker.bootstrap, "orders")
    assert "module_with_last" not in sys.modules


def test_partitioner_of_the_broker_alone() -> None:
    with Broker(partitioners={"by-country": RoundRobinPartitioner}) as broker:
        broker.create_topic("orders", kqueue_partitioner="by-country")
        # in its own process: this one has the broker's partitioners installed
        ran = subprocess.run(
            [sys.executable, "-m", "kqueue.cli", "produce", "orders", "-b", broker.bootstrap],
            input="a\n",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == (
        "Error: topic orders has the partitioner 'by-country' (kqueue.partitioner), which is not installed here. "
        "Install the "
        "distribution that brings it (`kqueue plugins` names it where the broker runs), or choose another "
        "partitioner with --partitioner.\n"
    )


def test_partitioner_that_fails_to_load(tmp_path: Path) -> None:
    add_distribution(tmp_path, "half-done", "0.3", {"kqueue.partitioners": {"half": "no_such_module:Half"}})
    with Broker(partitioners={"half": RoundRobinPartitioner}) as broker:
        broker.create_topic("orders", kqueue_partitioner="half")
        ran = subprocess.run(
            [sys.executable, "-m", "kqueue.cli", "produce", "orders", "-b", broker.bootstrap],
            input="a\n",
            env={**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), str(Path(__file__).parents[3])))},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert ran.returncode == 1
    assert ran.stderr.startswith(
        "Error: topic orders names its partitioner (kqueue.partitioner), but the partitioner 'half' can't be used"
    )
    assert "half-done 0.3 failed to load: ModuleNotFoundError: No module named 'no_such_module'" in ran.stderr
