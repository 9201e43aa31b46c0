"""A TCP proxy that drops replies and cuts connections when a test requests it.

It forwards bytes unchanged, with one exception: it replaces the brokers' ports in responses that
contain broker addresses. Clients therefore stay behind the proxy.
"""

from __future__ import annotations

import struct
from collections import Counter, defaultdict

from compat_tests.tcp_proxy import LOOPBACK, Directions, Link, TcpProxy, read_frame
from kqueue.base.addresses import parse_addresses

PRODUCE, FETCH, METADATA, FIND_COORDINATOR, DESCRIBE_CLUSTER = 0, 1, 3, 10, 60
TELL_ADDRESS = (METADATA, FIND_COORDINATOR, DESCRIBE_CLUSTER)


class Proxy(TcpProxy):
    """Forwards frames to each broker.

    `requests` counts the forwarded requests by API key; `dropped` counts the dropped replies.
    """

    def __init__(self, bootstrap: str) -> None:
        brokers = parse_addresses(bootstrap)
        self._replies: Counter[int] = Counter()
        self._drops: defaultdict[int, set[int]] = defaultdict(set)
        self.requests: Counter[int] = Counter()
        self.dropped = 0
        super().__init__(brokers, self._frames)
        self.bootstrap = ",".join(f"{LOOPBACK}:{port}" for port in self.ports)
        self.shown = {_told(broker.port): _told(port) for broker, port in zip(brokers, self.ports, strict=True)}

    def drop_reply(self, api_key: int, after: int = 0) -> None:
        """Forward `after` more replies of this API, drop the next one and cut its connection.

        The broker has processed that request, and the client cannot know it.
        """
        with self._lock:
            self._drops[api_key].add(self._replies[api_key] + after)

    def count_request(self, api_key: int) -> None:
        with self._lock:
            self.requests[api_key] += 1

    def is_to_drop(self, api_key: int) -> bool:
        """Count a reply of the broker and return whether to drop it."""
        with self._lock:
            number = self._replies[api_key]
            self._replies[api_key] += 1
            lost = number in self._drops[api_key]
            self.dropped += lost
            return lost

    def _frames(self, link: Link) -> Directions:
        api_keys: dict[int, int] = {}

        def up() -> None:
            while (frame := read_frame(link.client)) is not None:
                api_key, _version, correlation = struct.unpack_from(">hhi", frame, 4)
                api_keys[correlation] = api_key
                self.count_request(api_key)
                link.server.sendall(frame)

        def down() -> None:
            while (frame := read_frame(link.server)) is not None:
                api_key = api_keys.pop(struct.unpack_from(">i", frame, 4)[0])
                if self.is_to_drop(api_key):
                    return
                if api_key in TELL_ADDRESS:
                    for broker, shown in self.shown.items():
                        frame = frame.replace(broker, shown)
                link.client.sendall(frame)

        return up, down


def _told(port: int) -> bytes:
    """Return a loopback address as it is in responses."""
    return LOOPBACK.encode() + struct.pack(">i", port)
