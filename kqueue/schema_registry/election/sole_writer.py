"""`SoleWriter`: the leadership of a registry that has its topic for itself."""

from __future__ import annotations

import logging
import threading

from kqueue.base import events
from kqueue.schema_registry.election.election_member import Writer
from kqueue.schema_registry.schema_log import StoreUnavailable

BACKOFF_FIRST_S, BACKOFF_MAX_S = 0.05, 5.0
logger = logging.getLogger("kqueue.schema_registry")


class SoleWriter:
    """Claims the topic at the start, and again when an append has ended the claim.

    Thread: any, for `is_leader`, `leader_url` and `wake`.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Claim the topic. Raises: StoreUnavailable."""
        self._writer.claim(lambda: None)

    def close(self) -> None:
        """Write no more."""
        self._stopping.set()
        self._writer.release()
        if self._thread is not None:
            self._thread.join()

    def is_leader(self) -> bool:
        """Whether this registry writes now."""
        return self._writer.is_claimed

    def leader_url(self) -> str | None:
        """Return None: nothing is forwarded."""
        return None

    def wake(self) -> None:
        """Have a lost claim made again, in a thread: who appends holds what a claim needs."""
        with self._lock:
            if (self._thread is None or not self._thread.is_alive()) and not self._stopping.is_set():
                self._thread = threading.Thread(target=self._claim, name="kqueue-registry-claim", daemon=True)
                self._thread.start()

    def _claim(self) -> None:
        backoff_s = BACKOFF_FIRST_S
        while not self._stopping.is_set():
            try:
                self._writer.claim(lambda: None)
                return
            except StoreUnavailable as error:
                if backoff_s == BACKOFF_FIRST_S and not self._stopping.is_set():  # one line, not one for each try
                    events.REGISTRY_NOT_WRITING.log(logger, "elected, but %s", error=error)
            self._stopping.wait(backoff_s)
            backoff_s = min(backoff_s * 2, BACKOFF_MAX_S)
