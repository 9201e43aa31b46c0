from __future__ import annotations

import contextlib
import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
from click.testing import Result

from kqueue import Broker
from kqueue.cli.schema_registry import _log_to_stderr
from kqueue.testing.process_environment import process_environment
from kqueue.tests.processes import started
from kqueue.tests.schema_registry.http_calls import INT, call
from kqueue.tests.waits import eventually

Kq = Callable[..., Result]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--host", "0.0.0.0"), "users need not log in"),
        (("--compatibility", "SOME"), "expected one of NONE"),
        (("--login", "GSSAPI"), "expected one of PLAIN"),
        (("--acls",), "--acls needs users"),
        (("--advertised-url", "nowhere"), "expected http://HOST:PORT"),
        (("--timeout", "0"), "no broker"),
    ],
)
def test_options_that_can_not_be_used_are_a_sentence(kq: Kq, arguments: tuple[str, ...], words: str) -> None:
    result = kq("schema-registry", "-b", "127.0.0.1:1", "--port", "0", "--timeout", "0", *arguments)
    assert result.exit_code in (1, 2)
    assert words in result.output
    assert isinstance(result.exception, SystemExit)


def test_help_teaches_by_examples(kq: Kq) -> None:
    text = kq("schema-registry", "--help").output
    assert "kqueue schema-registry --compatibility FULL_TRANSITIVE" in text
    assert "one of them writes" in text


def test_a_name_in_a_line_of_the_log_begins_no_other_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    logger = logging.getLogger("kqueue.schema_registry")
    for name in ("handlers", "propagate", "level"):
        monkeypatch.setattr(logger, name, getattr(logger, name) if name != "handlers" else [])
    _log_to_stderr()
    logger.warning("topic %s", "a\n2026 ERROR\x1b[2J")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(r"WARNING kqueue.schema_registry: topic a\n2026 ERROR\x1b[2J")


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_registry_serves_until_it_is_stopped(number: signal.Signals) -> None:
    with Broker(group_initial_rebalance_delay_ms=0) as broker:
        command = [sys.executable, "-m", "kqueue.cli", "schema-registry", "-b", broker.bootstrap, "--port", "0"]
        with started(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=process_environment()
        ) as process:
            line = process.stdout.readline()
            assert line.startswith(f"The schema registry of {broker.bootstrap} is at http://127.0.0.1:")
            url = line.split()[-1]
            assert call(f"{url}/subjects/a/versions", "POST", INT) == (200, {"id": 1})
            process.send_signal(number)
            _, errors = process.communicate(timeout=60)
            assert "Traceback" not in errors
            assert "writes, in generation 1" in errors
        assert broker.groups["schema-registry"].members == ()


@pytest.mark.thorough
@pytest.mark.long
def test_what_was_registered_outlives_a_writer_that_is_killed() -> None:
    with Broker(group_initial_rebalance_delay_ms=0) as broker, contextlib.ExitStack() as stack:
        command = [sys.executable, "-m", "kqueue.cli", "schema-registry", "-b", broker.bootstrap, "--port", "0"]
        processes = {}
        for _ in range(2):
            process = stack.enter_context(
                started(
                    command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=process_environment()
                )
            )
            processes[process.stdout.readline().split()[-1]] = process
        registered: dict[int, str] = {}

        def register(url: str, number: int) -> bool:
            schema = f'{{"type":"fixed","name":"f","size":{number + 1}}}'
            answer = call(f"{url}/subjects/s{number}/versions", "POST", {"schema": schema})
            if answer.status == 200:
                assert registered.setdefault(answer.body["id"], schema) == schema, "an id was given twice"
            return answer.status == 200

        urls = list(processes)
        for number in range(20):
            eventually(lambda number=number: register(urls[number % 2], number), "a registration")
        [leader] = [url for url in urls if "kqueue_registry_is_leader 1.0" in call(f"{url}/metrics").body]
        [other] = [url for url in urls if url != leader]
        writing = threading.Thread(target=lambda: [register(other, 20 + number) for number in range(20)])
        writing.start()
        processes[leader].kill()
        writing.join()
        for number in range(50):
            eventually(lambda number=number: register(other, number), "a registration")
        for schema_id, schema in registered.items():
            assert call(f"{other}/schemas/ids/{schema_id}").body["schema"] == schema
        assert len(registered) == 50
