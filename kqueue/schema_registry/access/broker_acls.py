"""The broker's ACLs, read again and again."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

from kqueue.base import events
from kqueue.client import Client, ClientOptions
from kqueue.client.errors import ClientError
from kqueue.security.acls import ANY_HOST, AclBinding
from kqueue.security.operations import AclPermission

REFRESH_S = 10.0
logger = logging.getLogger("kqueue.schema_registry")


class BrokerAcls:
    """Reads all ACLs with a client of its own, at the start and then every `refresh_s`.

    While no broker answers, what was read last holds.

    Args:
        changed: called with the ACLs that hold from now on.
    """

    def __init__(
        self, options: ClientOptions, changed: Callable[[list[AclBinding]], object], refresh_s: float = REFRESH_S
    ) -> None:
        self._client = Client(options)
        self._changed = changed
        self._refresh_s = refresh_s
        self._known: set[AclBinding] | None = None
        self._has_failed = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kqueue-registry-acls", daemon=True)

    def start(self) -> None:
        """Read them once, in the calling thread, and go on in another.

        Raises: ClientError: the broker has no authorizer, or does not show ACLs to this user.
        """
        self._refresh()
        self._thread.start()

    def close(self) -> None:
        """End the thread, and close the connections."""
        self._stopping.set()
        if self._thread.is_alive():
            self._client.interrupt()
            self._thread.join()
        self._client.close()

    def _run(self) -> None:
        while not self._stopping.wait(self._refresh_s):
            try:
                self._refresh()
                self._has_failed = False
            except ClientError as error:
                if not self._has_failed and not self._stopping.is_set():
                    self._has_failed = True
                    events.REGISTRY_ACLS_OLD.log(logger, "the ACLs can't be read, the old ones hold: %s", error=error)

    def _refresh(self) -> None:
        bindings = self._client.cluster.describe_acls()
        if set(bindings) != self._known:
            self._changed(for_any_host(bindings))
            self._known = set(bindings)


def for_any_host(bindings: Iterable[AclBinding]) -> list[AclBinding]:
    """Return ACLs for a registry, which does not ask from where a user comes: a denial for one host
    holds for all, a permission for one host for none.
    """
    return [
        binding._replace(host=ANY_HOST)
        for binding in bindings
        if binding.host == ANY_HOST or binding.permission is AclPermission.DENY
    ]
