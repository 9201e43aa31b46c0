from __future__ import annotations

import ast
import asyncio
import contextlib
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

import kqueue
from kqueue.base.errors import SettingError
from kqueue.base.group_setting import broker_names
from kqueue.base.settings import Scope, SettingType, UpdateMode
from kqueue.config.catalog import CATALOG
from kqueue.config.kafka_settings import (
    _PREFIXES,
    REASONS,
    REFUSALS,
    REMOVED,
    UNDECLARED,
    SettingEffect,
    all_settings,
    effect_of,
    is_undeclared,
    reason_for,
    refusal_of,
    undeclared_setting,
)
from kqueue.groups.config import TIMINGS, ModernType
from kqueue.share.config import BOUNDED
from kqueue.tests.config.configs import read_config
from kqueue.tests.network.harness import connect, serving
from kqueue.tests.tables import for_each

SOURCE = Path(kqueue.__file__).parent
LIKE_A_NAME = re.compile(r"""["'](?:[a-z]+\.[a-z0-9.{]|preallocate["']|listeners["'])""")
"""A string that may name a setting. The parser takes the longest: it reads no other files."""
DATA = Path(__file__).parent.parent / "data"
BY_THEIR_RULE = {
    "group.share.assignors": "no value but simple is accepted",
}
"""Settings that no code reads because their rule, or what it says, is all that there is to do."""


def test_no_setting_that_a_layer_reads_is_called_meaningless() -> None:
    assert sorted(name for name in CATALOG.broker if name in UNDECLARED | REMOVED) == [], (
        "it has a meaning now: take it out of the table"
    )


def test_the_two_tables_share_no_name() -> None:
    assert not UNDECLARED & REMOVED


@for_each(
    "name",
    [
        "num.replica.alter.log.dirs.threads",
        "controller.quorum.voters",
        "zookeeper.connect",
        "listener.name.internal.sasl.login.class",
        "ssl.engine.factory.class",
    ],
)
def test_settings_of_kafka_are_known(name: str) -> None:
    assert is_undeclared(name)


@for_each(
    "name",
    ["", "log.dirs", "num.network.thread", "kqueue.flush", "listener.name", "ssl.keystore.type", "ssl.keystor.type"],
)
def test_others_are_not(name: str) -> None:
    assert not is_undeclared(name)
    if name not in CATALOG.broker:
        with pytest.raises(KeyError):
            effect_of(name, None)


# --- each does, is warned of, or is refused


@for_each("scope", ["broker", "topic"])
def test_every_setting_of_kafka_is_in_the_list_once(scope: str) -> None:
    """The names of Kafka 4.3's AbstractKafkaConfig.configDef and LogConfig."""
    kafkas = (DATA / f"kafka-4.3-{scope}-settings.txt").read_text().split()
    listed = [line.name for line in all_settings(CATALOG) if line.scope == scope]
    assert len(listed) == len(set(listed))
    assert sorted(set(kafkas) - set(listed)) == []
    ours = {
        name for name in set(listed) - set(kafkas) if not name.startswith(("kqueue.", "zookeeper.ssl."))
    }  # Kafka 3's
    # Kafka's names too: an internal one, and those that are dynamic only (DynamicConfig.Broker)
    internal = {"producer.id.expiration.check.interval.ms", "replica.alter.log.dirs.io.max.bytes.per.second"}
    internal |= {"leader.replication.throttled.rate", "follower.replication.throttled.rate"}
    internal |= {"super.users", "allow.everyone.if.no.acl.found"}  # of the authorizer
    internal |= {"control.plane.listener.name"}  # of Kafka 3, which must not be opened
    assert ours == (internal if scope == "broker" else set()), "Kafka has no such names"


def test_each_setting_has_one_effect_and_a_reason() -> None:
    for name in (*UNDECLARED, *REMOVED, *(f"{prefix}x" for prefix in _PREFIXES)):
        effect = effect_of(name, None)
        assert effect is (SettingEffect.REFUSED if refusal_of(name) else SettingEffect.WARNED)
        assert reason_for(name)
    for _, reason in REASONS:
        assert reason


def test_every_pattern_matches_a_setting() -> None:
    names = [*UNDECLARED, *REMOVED, *(f"{prefix}x" for prefix in _PREFIXES), "listener.name.x.max.connections"]
    for pattern, _ in REASONS:
        first = [name for name in names if next((one for one, _ in REASONS if re.match(one, name)), None) == pattern]
        assert first, f"nothing falls under the reason {pattern}"
    for pattern, _ in REFUSALS:
        assert any(re.fullmatch(pattern, name) for name in names), f"nothing is refused by {pattern}"


@for_each("name", sorted(UNDECLARED | REMOVED))
def test_undeclared_setting_is_warned_of_once_or_refused(name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.clear()
    if refusal_of(name) is not None:
        with pytest.raises(SettingError, match=f"{re.escape(name)} asks for .*; remove it to serve without"):
            read_config(pairs=[f"{name}=required"])
        read_config(pairs=[f"{name}="])
    else:
        read_config(pairs=[f"{name}=5"])
        assert caplog.messages == [f"--set {name}: {name} has no effect and is left out: {reason_for(name)}"]


@for_each(
    "pair, refused",
    [
        ("ssl.client.auth=none", False),
        ("listener.name.plaintext.ssl.client.auth=required", False),
        ("listener.name.internal.ssl.engine.factory.class=x.Y", True),
        ("listener.name.internal.max.connections=5", True),
        ("listener.name.internal.max.connection.creation.rate=5", False),
        ("listener.name.plaintext.ssl.keystore.location=/x", False),
        ("remote.log.storage.system.enable=true", False),
        ("cordoned.log.dirs=/a", True),
    ],
)
def test_guards_and_limits_are_refused_unless_they_ask_for_nothing(pair: str, refused: bool) -> None:
    with pytest.raises(SettingError, match="asks for") if refused else contextlib.nullcontext():
        read_config(pairs=[pair])


# --- what is declared


def strings_read() -> tuple[set[str], list[re.Pattern[str]]]:
    """Return the string literals outside declarations that may name a setting."""
    plain: set[str] = set()
    patterns: list[re.Pattern[str]] = []
    for path in SOURCE.rglob("*.py"):
        if path.is_relative_to(SOURCE / "tests") or path.name == "kafka_settings.py":
            continue
        text = path.read_text()
        if LIKE_A_NAME.search(text) is None:
            continue
        for node in _without_declarations(ast.parse(text)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                plain.add(node.value)
            elif isinstance(node, ast.JoinedStr) and len(node.values) > 1:
                parts = [
                    re.escape(str(one.value)) if isinstance(one, ast.Constant) else "[a-z0-9]+" for one in node.values
                ]
                if parts[0] != "[a-z0-9]+" and "\\." in parts[0]:
                    patterns.append(re.compile("".join(parts)))
    return plain, patterns


def _without_declarations(tree: ast.AST) -> Iterator[ast.AST]:
    pending = [tree]
    while pending:
        node = pending.pop()
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("Setting", "_row", "Synonym")
        ):
            continue
        yield node
        pending.extend(ast.iter_child_nodes(node))


def bounds_read() -> set[str]:
    """Return the settings whose names are made of the name of a group's setting."""

    class Names(dict[str, int]):
        def __missing__(self, name: str) -> int:
            return self.setdefault(name, 1)

    names: Any = Names()
    for kind in get_args(ModernType):
        for timing in TIMINGS:
            timing.setting(kind, names)
    return {*names, *(row for name in BOUNDED for row in broker_names(name))}


def test_every_declared_setting_is_read_somewhere_or_says_that_it_has_no_effect() -> None:
    plain, patterns = strings_read()
    plain |= bounds_read()
    synonyms = {synonym.name for row in CATALOG.topic.values() for synonym in row.synonyms}
    rows = [*CATALOG.topic.values(), *(row for name, row in CATALOG.broker.items() if name not in synonyms)]
    unread = {
        row.name
        for row in rows
        if row.name not in plain
        and not any(one.fullmatch(row.name) for one in patterns)
        and row.name not in BY_THEIR_RULE
    }
    assert unread == {row.name for row in rows if row.without_effect}
    assert not unread & BY_THEIR_RULE.keys()


def test_a_setting_without_effect_says_so_and_its_broker_level_name_too() -> None:
    for row in CATALOG.topic.values():
        if row.without_effect:
            assert "Accepted and shown" in row.doc
            assert all(CATALOG.broker[synonym.name].without_effect for synonym in row.synonyms)


def test_a_broker_setting_without_effect_is_warned_of_unless_it_is_the_default(
    caplog: pytest.LogCaptureFixture,
) -> None:
    read_config(pairs=["num.io.threads=8", "log.preallocate=false"])
    assert caplog.messages == []
    read_config(pairs=["log.preallocate=true"])
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("--set log.preallocate: log.preallocate has no effect: Default of the topics'")


def test_a_clusters_setting_is_warned_of_on_a_single_broker_only(caplog: pytest.LogCaptureFixture) -> None:
    read_config(pairs=["kqueue.cluster.store=sqlite:/x", "replica.lag.time.max.ms=1", "min.insync.replicas=2"])
    read_config(pairs=["replica.lag.time.max.ms=30000", "min.insync.replicas=1"])
    assert caplog.messages == []
    read_config(pairs=["replica.lag.time.max.ms=1", "min.insync.replicas=2"])
    assert caplog.messages == [
        "--set replica.lag.time.max.ms: replica.lag.time.max.ms has no effect without kqueue.cluster.store",
        "--set min.insync.replicas: min.insync.replicas has no effect without kqueue.cluster.store",
    ]


@for_each("store", ["", "sqlite", "sqlite:", "zookeeper:", "postgres", "etcd:host:1", "/path"])
def test_a_cluster_store_that_no_one_can_open_is_refused(store: str) -> None:
    with pytest.raises(SettingError, match="expected text, sqlite:PATH, zookeeper:HOST:PORT"):
        read_config(pairs=[f"kqueue.cluster.store={store}"])


# --- max.connections.per.ip=0: only the overrides may connect


def test_no_connections_per_address_admits_only_the_overrides(tmp_path: Path) -> None:
    async def test() -> None:
        async with serving(
            tmp_path, max_connections_per_ip=0, max_connections_per_ip_overrides="127.0.0.1:1"
        ) as server:
            client = await connect(server)
            assert (await client.ask("ApiVersions", 0)).error_code == 0
        async with serving(tmp_path, max_connections_per_ip=0, max_connections_per_ip_overrides="10.9.8.7:5") as server:
            host, port = server.endpoint(server.listener_names[0])
            reader, writer = await asyncio.open_connection(host, port)
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
            writer.close()

    asyncio.run(test())


def test_no_connections_per_address_without_overrides_is_a_wrong_setting() -> None:
    """As Kafka: nothing could ever connect."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(SettingError, match=r"max\.connections\.per\.ip=0 admits only the addresses of"):
        kqueue.Broker(port=port, max_connections_per_ip=0).start()


OTHER_BOUNDS = {
    "segment.bytes",
    "log.segment.bytes",
    "log.cleaner.backoff.ms",
    "log.cleaner.io.buffer.size",
    "log.flush.offset.checkpoint.interval.ms",
    "max.connection.creation.rate",
}
OTHER_WORDS = {"group.consumer.migration.policy", "group.coordinator.rebalance.protocols"}
ACCEPTED = {"log.roll.hours", "log.roll.jitter.hours"}
"""A number below 0 is no limit, as for the settings in other units."""
KAFKAS_REFUSALS = [
    line.split("\t") for line in (DATA / "kafka-4.3-invalid-values.tsv").read_text().splitlines() if line[0] != "#"
]


@for_each("scope", [Scope.TOPIC, Scope.GROUP, Scope.BROKER])
def test_refusals_of_values_begin_with_kafkas_words(scope: Scope) -> None:
    """Scope, name, value, and the message of Kafka's ConfigDef about it."""
    refusals = [row[1:] for row in KAFKAS_REFUSALS if row[0] == scope.value]
    assert len(refusals) > 20
    for name, value, message in refusals:
        row = CATALOG.rows(scope)[name]
        if name in ACCEPTED and value == "-99":
            row.parse(value)
            continue
        with pytest.raises(SettingError) as caught:
            row.parse(value)
        expected = message.partition("at least")[0] if name in OTHER_BOUNDS else message
        expected = message.partition(": ")[0] if name in OTHER_WORDS else expected
        assert str(caught.value).startswith(expected)


def test_undeclared_dynamic_setting_of_kafka_is_stored() -> None:
    row = undeclared_setting("share.coordinator.cached.buffer.max.bytes")
    assert row is not None
    assert (row.kind, row.dynamic, row.parse("524288")) == (SettingType.INT, UpdateMode.CLUSTER_WIDE, 524288)
    row = undeclared_setting("listener.name.a.sasl.login.refresh.window.jitter")
    assert row is not None
    assert (row.kind, row.dynamic) == (SettingType.DOUBLE, UpdateMode.PER_BROKER)
    assert undeclared_setting("zookeeper.connect") is None
    assert CATALOG.find_any_broker("zookeeper.connect").kind is SettingType.UNKNOWN
    static = undeclared_setting("controller.quorum.voters")
    assert static is not None
    assert static.is_read_only
