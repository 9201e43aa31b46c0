"""Says what a broker can't do in a process whose threads gevent or eventlet has replaced."""

from __future__ import annotations

import logging
import sys
from functools import cache

logger = logging.getLogger("kqueue.embedded")


def replaced_by() -> str | None:
    """Return which of gevent and eventlet has made the process's threads greenlets; None: none."""
    return next((library for library, has_replaced in _PATCHERS.items() if has_replaced("thread")), None)


def check_greenlets() -> None:
    """Log once how clients may block a broker that is a greenlet of their own thread.

    Raises: RuntimeError: the broker would block it, as the waits of event loops were not replaced.
    """
    library = replaced_by()
    if library is None:
        return
    if not _PATCHERS[library]("select"):
        raise RuntimeError(
            f"{library} has replaced the threads of this process but not the module select, so a broker would block "
            "all of its greenlets: patch both, or neither (thread=False)"
        )
    _warn(library)


@cache
def _warn(library: str) -> None:
    logger.warning(
        "%s has replaced the threads of this process, so the broker is a greenlet, which a call of "
        "confluent-kafka (librdkafka) that waits blocks, as any that waits outside of %s: use another client, patch "
        "with thread=False, or start the broker in a process of its own (kqueue serve)",
        library,
        library,
    )


def _gevent_has_replaced(what: str) -> bool:
    gevent = sys.modules.get("gevent.monkey")
    return gevent is not None and bool(gevent.is_module_patched({"thread": "threading"}.get(what, what)))


def _eventlet_has_replaced(what: str) -> bool:
    eventlet = sys.modules.get("eventlet.patcher")
    return eventlet is not None and bool(eventlet.is_monkey_patched(what))


_PATCHERS = {"gevent": _gevent_has_replaced, "eventlet": _eventlet_has_replaced}
"""By library: whether it has replaced ``thread`` or ``select`` in this process."""
