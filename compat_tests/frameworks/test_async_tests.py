"""Tests that are coroutines: the fixtures and `broker.aio` under pytest-asyncio and anyio, the
latter on asyncio and on trio.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest

pytest_plugins = ["pytester"]
BODY = """
    await async_kafka_broker.produce(kafka_topic, {"coffees": 2}, key="table 4")
    await async_kafka_broker.assert_produced(kafka_topic, [{"coffees": 2}], within_s=60)
    with pytest.raises(RuntimeError, match="await broker.wait_produced"):
        kafka_broker.assert_produced(kafka_topic, ["none"], within_s=1)
    await kafka_broker.wait_produced(kafka_topic, count=1)
    async with kqueue.Broker() as own:
        await own.aio.create_topic("orders", 2)
        await own.aio.advance(hours=1)
        assert await own.aio.topics() == ["orders"]
"""
HEAD = "import kqueue\nimport pytest\n\n"
ARGUMENTS = "kafka_broker, async_kafka_broker, kafka_topic"
OF_ASYNCIO = f"{HEAD}@pytest.mark.asyncio\nasync def test_it({ARGUMENTS}):{BODY}"
OF_ANYIO = f"""{HEAD}@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_it(anyio_backend, {ARGUMENTS}):{BODY}"""
TESTS = {"pytest-asyncio": (OF_ASYNCIO, ["-p", "no:anyio"], 1), "anyio": (OF_ANYIO, ["-p", "no:asyncio"], 2)}
"""Program, options of pytest and number of tests, by plugin."""


@pytest.mark.parametrize("plugin", TESTS)
def test_coroutines_use_the_fixtures(pytester: pytest.Pytester, monkeypatch: Any, plugin: str) -> None:
    for package in ("pytest_asyncio", "anyio", "trio"):
        if find_spec(package) is None:
            pytest.skip(f"skipped, because there is no package {package}")
    program, options, passed = TESTS[plugin]
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    pytester.makepyfile(test_it=program)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", *options, timeout=60)
    result.assert_outcomes(passed=passed)
