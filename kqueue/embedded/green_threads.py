"""Says what a broker can't do in a process whose threads gevent or eventlet has replaced."""

from __future__ import annotations

import logging
import sys
from functools import cache

logger = logging.getLogger("kqueue.embedded")


def replaced_by() -> str | None:
    """Return which of gevent and eventlet has made the process's threads greenlets; None: none."""
    gevent, eventlet = sys.modules.get("gevent.monkey"), sys.modules.get("eventlet.patcher")
    if gevent is not None and gevent.is_module_patched("threading"):
        return "gevent"
    if eventlet is not None and eventlet.is_monkey_patched("thread"):
        return "eventlet"
    return None


@cache
def warn_of_greenlets() -> None:
    """Log once how clients may block a broker that is a greenlet of their own thread."""
    library = replaced_by()
    if library is not None:
        logger.warning(
            "%s has replaced the threads of this process, so the broker is a greenlet, which a call of "
            "confluent-kafka (librdkafka) that waits blocks: use another client, patch with thread=False, "
            "or start the broker in a process of its own (kqueue serve)",
            library,
        )
