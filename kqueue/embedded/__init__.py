"""A broker inside your own process: `kqueue.Broker`, an ordinary object with its own thread."""

from __future__ import annotations

from kqueue.embedded.broker import Broker

__all__ = ["Broker"]
