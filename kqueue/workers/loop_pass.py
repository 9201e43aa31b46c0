"""The longest time that the event loop runs queued work before it polls its sockets again."""

from __future__ import annotations

from typing import Final

PASS_S: Final = 0.01
"""Seconds. Connections with work, ended jobs, due timers and known responses are each processed for
at most this long per pass."""
