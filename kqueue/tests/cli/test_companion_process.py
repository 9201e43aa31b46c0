from __future__ import annotations

import io
import threading

import pytest

from kqueue.cli.companion_process import address_of, watch
from kqueue.config.listeners import parse_listeners
from kqueue.config.properties import make_config, read_values


@pytest.mark.parametrize(
    ("bound", "address"),
    [
        ("127.0.0.1:9093", "127.0.0.1:9093"),
        ("0.0.0.0:9093", "127.0.0.1:9093"),
        ("[::]:9093", "127.0.0.1:9093"),
        ("[::1]:9093", "[::1]:9093"),
    ],
)
def test_a_listener_is_reached_from_the_same_machine(bound: str, address: str) -> None:
    pairs = [f"listeners=PLAINTEXT://{bound}", "advertised.listeners=PLAINTEXT://localhost:9093"]
    config = make_config(read_values(None, {}, pairs))
    assert address_of(parse_listeners(config)[0]) == address


def test_the_end_of_the_stream_stops_the_command() -> None:
    stopped = threading.Event()
    watch(io.BytesIO(b"ignored" * 1_000), stopped.set)
    assert stopped.wait(20)
