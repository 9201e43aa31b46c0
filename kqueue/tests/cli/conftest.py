"""A broker for the commands: an embedded one, or the one in TEST_BOOTSTRAP."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner, Result

from kqueue.cli import broker_wait
from kqueue.cli.app import kqueue

Kqueue = Callable[..., Result]
_numbers = itertools.count(1)


@pytest.fixture(scope="session", autouse=True)
def _no_settings_from_outside(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Remove kqueue's environment variables, which would change the settings of every broker, and
    the user's profiles. Commands do not wait for a broker unless a test says so.
    """
    for name in [name for name in os.environ if name.startswith("KQUEUE_")]:
        del os.environ[name]
    os.environ["XDG_CONFIG_HOME"] = str(tmp_path_factory.mktemp("config"))
    os.environ["KQUEUE_TIMEOUT"] = "0"


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    given = os.environ.get("TEST_BOOTSTRAP")
    if given:
        yield given
        return
    from kqueue import Broker

    with Broker(settings={"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 1}) as broker:
        yield broker.bootstrap


@pytest.fixture
def kq(bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> Kqueue:
    """Run a command line in this process, against the broker; `input` is its standard input."""
    monkeypatch.setattr(broker_wait, "NOTICE_DELAY_S", 60)  # a busy machine is no reason to say that it waits

    def run(*args: str, input: str | bytes | None = None, env: dict[str, str] | None = None) -> Result:
        return CliRunner().invoke(kqueue, args, input=input, env={"KQUEUE_BOOTSTRAP": bootstrap, **(env or {})})

    return run


@pytest.fixture
def done(kq: Kqueue) -> Callable[..., str]:
    """Like `kq`, for commands that must succeed: returns standard output."""

    def run(*args: str, input: str | bytes | None = None) -> str:
        result = kq(*args, input=input)
        assert result.exit_code == 0, result.output
        return result.stdout

    return run


@pytest.fixture
def fresh() -> str:
    """Return a name that no topic or group has."""
    return f"t{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def topic(fresh: str, done: Callable[..., str]) -> str:
    """Return a new topic of three partitions."""
    done("topics", "create", fresh, "-p", "3")
    return fresh
