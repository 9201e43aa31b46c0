from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kqueue.base.errors import SettingError
from kqueue.config.properties import make_config
from kqueue.embedded.settings import DEFAULTS, setting_values, with_bound_ports
from kqueue.tests.network.harness import serving
from kqueue.tests.tables import for_each


def test_nothing_given_means_memory_and_a_free_port_on_this_machine() -> None:
    config = make_config(setting_values(None, 0, {}, {}))
    assert (config["kqueue.storage"], config["listeners"]) == ("memory", ["PLAINTEXT://localhost:0"])
    assert {name: config[name] for name in DEFAULTS} == dict(DEFAULTS)


def test_a_path_means_that_folder_commas_and_all() -> None:
    config = make_config(setting_values(Path("a,b"), 9092, {}, {}))
    assert (config["kqueue.storage"], config["log.dirs"], config["listeners"]) == (
        "local",
        ["a,b"],
        ["PLAINTEXT://localhost:9092"],
    )


def test_settings_and_keywords_win_over_the_defaults() -> None:
    given = setting_values(
        None,
        0,
        {"log.segment.bytes": 2000, "listeners": "PLAINTEXT://127.0.0.1:7"},
        {"group_initial_rebalance_delay_ms": 5},
    )
    config = make_config(given)
    assert (config["log.segment.bytes"], config["group.initial.rebalance.delay.ms"]) == (2000, 5)
    assert config["listeners"] == ["PLAINTEXT://127.0.0.1:7"]


def test_log_dirs_mean_a_disk() -> None:
    assert make_config(setting_values(None, 0, {}, {"log_dirs": ["x", "y"]}))["kqueue.storage"] == "local"


@for_each(
    "path, port, settings, keywords, words",
    [
        ("x", 0, {"log.dirs": "y"}, {}, "data folder is given twice"),
        (None, 5, {"listeners": "PLAINTEXT://h:1"}, {}, "port is given twice"),
        (None, 0, {"num.partitions": 1}, {"num_partitions": 2}, "num.partitions is given twice"),
        (None, 70_000, {}, {}, "port=70000: expected"),
        (
            None,
            0,
            {},
            {"log_segment_byte": 5},
            "keyword log_segment_byte: .*did you mean 'log.segment.bytes'",
        ),
        (None, 0, {"num.partitions": 0}, {}, "settings: Invalid value 0.*num.partitions: .*at least 1"),
    ],
)
def test_arguments_that_are_wrong_are_named(
    path: str | None, port: int, settings: dict[str, object], keywords: dict[str, object], words: str
) -> None:
    with pytest.raises(SettingError, match=words):
        make_config(setting_values(path, port, settings, keywords))


def test_pinned_settings_name_the_real_ports() -> None:
    async def test() -> None:
        two = {
            "listeners": "A://127.0.0.1:0,B://127.0.0.1:0",
            "listener_security_protocol_map": "A:PLAINTEXT,B:PLAINTEXT",
        }
        async with serving(num_partitions=3, **two) as server:
            config = with_bound_ports(server.config, server)
            assert config["listeners"] == [f"{name}://127.0.0.1:{server.bound(name)[1]}" for name in "AB"]
            assert config["num.partitions"] == 3

    asyncio.run(test())
