"""`ConnectionPool`: clients of the brokers, lent to one request at a time.

Clients of one login are never lent to another: what the broker's ACLs let a user see is decided by
the broker, for the connection.
"""

from __future__ import annotations

import contextlib
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace

from kqueue.base.clock import monotonic_s
from kqueue.client import Client, ClientOptions
from kqueue.client.errors import BrokerUnreachable, ClientError, DeadlinePassed
from kqueue.console.problems import TooBusy, UnknownResource

CLIENTS_MAX = 64
CLIENTS_PER_LOGIN_MAX = 8
IDLE_S = 60.0
WAIT_S = 5.0
SILENT_S, PROBE_MS = 30.0, 1_500
"""How long after a call that reached no broker the next ones have `PROBE_MS` only: a reader who
tries again is told at once.
"""


class ConnectionPool:
    """Lends clients, and keeps them for later requests of the same login.

    Args:
        clients_max: of all logins together; a request beyond it waits up to `wait_s` seconds.
        per_login_max: of one login, so that one user can't take all.
        idle_s: seconds after which a client that nobody used is closed, at the next loan.
        now_s: returns seconds of a clock that only goes forward.
    Thread: any.
    """

    def __init__(
        self,
        *,
        clients_max: int = CLIENTS_MAX,
        per_login_max: int = CLIENTS_PER_LOGIN_MAX,
        idle_s: float = IDLE_S,
        wait_s: float = WAIT_S,
        now_s: Callable[[], float] = monotonic_s,
    ) -> None:
        self._clients_max = clients_max
        self._per_login_max = per_login_max
        self._idle_s = idle_s
        self._wait_s = wait_s
        self._now_s = now_s
        self._changed = threading.Condition()
        self._idle: dict[str, list[tuple[float, Client]]] = defaultdict(list)
        self._lent: dict[str, int] = defaultdict(int)
        self._ended: set[str] = set()
        self._silent_s: dict[str, float] = {}

    @contextlib.contextmanager
    def client(self, login_id: str, options: ClientOptions) -> Iterator[Client]:
        """Lend a client. `login_id`: whose `options` have the credentials.

        Raises: TooBusy: none became free in time.
        """
        is_probe = self._was_silent(login_id)
        client = self._take(login_id, _probing(options) if is_probe else options, is_new=is_probe)
        is_reusable = False
        try:
            yield client
            self._note(login_id, is_silent=False)
            is_reusable = not is_probe
        except (ClientError, UnknownResource) as error:
            self._note(login_id, is_silent=_is_silence(error))
            is_reusable = not is_probe  # a client reconnects by itself
            raise
        finally:
            self._give_back(login_id, client, is_reusable)

    def forget(self, login_id: str) -> None:
        """Close the clients of a login that has ended; those in use when they come back."""
        with self._changed:
            closing = [client for _, client in self._idle.pop(login_id, [])]
            self._silent_s.pop(login_id, None)
            if self._lent.get(login_id):
                self._ended.add(login_id)
        _close(closing)

    def close(self) -> None:
        """Close all clients that are not in use."""
        with self._changed:
            closing = [client for clients in self._idle.values() for _, client in clients]
            self._idle.clear()
            self._ended.update(self._lent)
        _close(closing)

    def _was_silent(self, login_id: str) -> bool:
        with self._changed:
            silent_s = self._silent_s.get(login_id)
            return silent_s is not None and self._now_s() - silent_s < SILENT_S

    def _note(self, login_id: str, *, is_silent: bool) -> None:
        with self._changed:
            if is_silent:
                self._silent_s[login_id] = self._now_s()
            else:
                self._silent_s.pop(login_id, None)

    def _take(self, login_id: str, options: ClientOptions, *, is_new: bool) -> Client:
        with self._changed:
            if not self._changed.wait_for(lambda: self._has_room(login_id), self._wait_s):
                raise TooBusy
            closing = self._take_out_idle(self._now_s() - self._idle_s)
            clients = None if is_new else self._idle.get(login_id)
            client = clients.pop()[1] if clients else None
            if client is None and self._total() >= self._clients_max:
                closing += self._take_out_oldest()
            self._lent[login_id] += 1
        _close(closing)
        return Client(options) if client is None else client

    def _has_room(self, login_id: str) -> bool:
        lent = sum(self._lent.values())
        return lent < self._clients_max and self._lent.get(login_id, 0) < self._per_login_max

    def _total(self) -> int:
        return sum(self._lent.values()) + sum(map(len, self._idle.values()))

    def _take_out_idle(self, before_s: float) -> list[Client]:
        closing = []
        for login_id, clients in list(self._idle.items()):
            closing += [client for used_s, client in clients if used_s < before_s]
            self._idle[login_id] = [entry for entry in clients if entry[0] >= before_s]
            if not self._idle[login_id]:
                del self._idle[login_id]
        return closing

    def _take_out_oldest(self) -> list[Client]:
        login_id = min(self._idle, key=lambda key: self._idle[key][0][0], default=None)
        if login_id is None:
            return []
        _, client = self._idle[login_id].pop(0)
        if not self._idle[login_id]:
            del self._idle[login_id]
        return [client]

    def _give_back(self, login_id: str, client: Client, is_reusable: bool) -> None:
        with self._changed:
            self._lent[login_id] -= 1
            has_ended = login_id in self._ended
            if not self._lent[login_id]:
                del self._lent[login_id]
                self._ended.discard(login_id)
            if is_reusable and not has_ended:
                self._idle[login_id].append((self._now_s(), client))
                client = None  # type: ignore[assignment]
            self._changed.notify_all()
        if client is not None:
            client.close()


def _probing(options: ClientOptions) -> ClientOptions:
    """Return options with which a call ends soon if still no broker answers."""
    return replace(
        options,
        timeout_ms=min(options.timeout_ms, PROBE_MS),
        request_timeout_ms=min(options.request_timeout_ms, PROBE_MS),
        connect_timeout_ms=min(options.connect_timeout_ms, PROBE_MS),
    )


def _is_silence(error: BaseException) -> bool:
    """Return whether no broker could be reached, until the call's timeout."""
    cause = error.__cause__ if isinstance(error, DeadlinePassed) else error
    return isinstance(cause, BrokerUnreachable)


def _close(clients: list[Client]) -> None:
    for client in clients:
        client.close()
