"""Brokers in a process whose threads gevent or eventlet has replaced: event loops of greenlets, and
what does not work there.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import weakref
from collections.abc import Callable
from functools import cache
from typing import Any

from kqueue.base import events

logger = logging.getLogger("kqueue.embedded")


def replaced_by() -> str | None:
    """Return which of gevent and eventlet has made the process's threads greenlets; None: none."""
    return next((library for library, has_replaced in _PATCHERS.items() if has_replaced("thread")), None)


def prepare_greenlets() -> None:
    """Let greenlets run event loops of their own, where threads are greenlets. Logs once how
    clients may block a broker there.

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
    _keep_running_loops()
    _warn(library)


def _keep_running_loops() -> None:
    """Keep a running loop for each greenlet. asyncio has one for each thread of the system, so no
    second loop could run, and other greenlets would take the broker's for theirs.
    """
    greenlet = sys.modules["greenlet"]
    tracer = greenlet.gettrace()
    if isinstance(tracer, _LoopSwitcher):
        return
    greenlet.settrace(_LoopSwitcher(tracer))


class _LoopSwitcher:
    """A tracer of greenlets that changes the thread's running loop with the greenlet.

    Args: tracer: what else traces switches; None: nothing.
    """

    def __init__(self, tracer: Callable[[str, Any], object] | None) -> None:
        self._tracer = tracer
        self._loops: weakref.WeakKeyDictionary[Any, asyncio.AbstractEventLoop] = weakref.WeakKeyDictionary()

    def __call__(self, event: str, args: Any) -> None:
        if event in ("switch", "throw"):
            origin, target = args
            running = asyncio._get_running_loop()
            if running is None:
                self._loops.pop(origin, None)
            else:
                self._loops[origin] = running
            asyncio._set_running_loop(self._loops.get(target))
        if self._tracer is not None:
            self._tracer(event, args)


@cache
def _warn(library: str) -> None:
    events.GREEN_THREADS.log(
        logger,
        "%s has replaced the threads of this process, so the broker is a greenlet, which a call of "
        "confluent-kafka (librdkafka) that waits blocks, as any that waits outside of it: use another client, patch "
        "with thread=False, or start the broker in a process of its own (kqueue serve)",
        library=library,
    )


def _gevent_has_replaced(what: str) -> bool:
    gevent = sys.modules.get("gevent.monkey")
    return gevent is not None and bool(gevent.is_module_patched({"thread": "threading"}.get(what, what)))


def _eventlet_has_replaced(what: str) -> bool:
    eventlet = sys.modules.get("eventlet.patcher")
    return eventlet is not None and bool(eventlet.is_monkey_patched(what))


_PATCHERS = {"gevent": _gevent_has_replaced, "eventlet": _eventlet_has_replaced}
"""By library: whether it has replaced ``thread`` or ``select`` in this process."""
