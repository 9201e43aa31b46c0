"""All listeners of one server: their sockets are bound first, opened when the broker is built, and
served when it has started.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from kqueue.base.clock import Clock
from kqueue.base.config import Config
from kqueue.config.listeners import ListenerConfig, inter_broker_plan
from kqueue.network.connection_quotas import ConnectionQuotas
from kqueue.network.connection_rates import ConnectionRates
from kqueue.network.connections import ConnectionRegistry
from kqueue.network.listener import Listener, bind

if TYPE_CHECKING:
    from kqueue.broker.broker import Broker
    from kqueue.network.peer_security import PeerSecurity
    from kqueue.network.sasl_gate import SaslListener
    from kqueue.network.tls_context import ListenerTls


class Listeners:
    """The listeners of `plans`, by name, in the order of the settings.

    Args:
        sockets: bound or listening sockets, by the names of their listeners, used in place of new
            ones. They belong to this object.
    """

    def __init__(
        self, plans: list[ListenerConfig], config: Config, clock: Clock, sockets: Mapping[str, Sequence[socket.socket]]
    ) -> None:
        self._plans = plans
        self._config = config
        self._clock = clock
        self._sockets = dict(sockets)
        self._rates = ConnectionRates(config, clock)
        self._named: dict[str, Listener] = {}
        self._more: list[Listener] = []
        self._tls: dict[str, ListenerTls] = {}
        self._sasl: dict[str, SaslListener] = {}
        self._registry: ConnectionRegistry
        self._quotas: ConnectionQuotas

    def bind(self, cleanup: ExitStack) -> None:
        """Bind what is not bound, and read key stores. `cleanup` closes the sockets.

        Raises: ListenFailed; SettingError: a key store can't be used.
        """
        for bound in self._sockets.values():
            _close_later(bound, cleanup)
        for plan in self._plans:
            if plan.bind.name not in self._sockets:
                bound = self._sockets[plan.bind.name] = bind(plan.bind, self._config)
                _close_later(bound, cleanup)
            if plan.protocol.uses_tls:
                from kqueue.network.tls_context import ListenerTls  # on use: others do not need it

                self._tls[plan.bind.name] = ListenerTls(plan, self._config, self._clock)

    def open(self, registry: ConnectionRegistry, quotas: ConnectionQuotas, cleanup: ExitStack) -> None:
        """Let clients connect; they are served after `start`. Raises ListenFailed."""
        self._registry, self._quotas = registry, quotas
        for tls in self._tls.values():
            tls.start(registry)
            cleanup.callback(tls.close)
        for plan in self._plans:
            first, *more = (self._listener(plan, bound) for bound in self._sockets.pop(plan.bind.name))
            for listener in (first, *more):
                cleanup.callback(listener.close)
                listener.open()
            self._named[plan.bind.name] = first
            self._more += more

    def peer_security(self) -> PeerSecurity | None:
        """Return how this broker reaches others; None: as plain text. Raises SettingError."""
        plan = inter_broker_plan(self._plans, self._config)
        if not plan.protocol.uses_tls and not plan.protocol.uses_sasl:
            return None
        from kqueue.network.peer_security import PeerSecurity  # on use: others do not need it

        return PeerSecurity.of(plan, self._config)

    def authenticate(self, broker: Broker) -> None:
        """Prepare the authentication of clients, where there is any. Call it between `open` and
        `start`, when the broker has loaded its metadata.

        Raises: SettingError: clients could not authenticate.
        """
        named = [plan.bind.name for plan in self._plans if plan.protocol.uses_sasl]
        if named:
            from kqueue.broker.access.salt_secret import SaltSecret
            from kqueue.network.sasl_gate import SaslAuthentication, SaslListener  # on use: others do not need it

            shared = SaslAuthentication(
                self._config,
                self._registry,
                broker.scheduler.purgatory,
                broker.security,
                SaltSecret(broker.metadata.cache),
            )
            self._sasl = {name: SaslListener(shared, name) for name in named}
            for listener in self:
                listener.sasl = self._sasl.get(listener.plan.bind.name)

    def start(self) -> None:
        """Accept connections."""
        for listener in self:
            listener.start()

    def accept_from(self, name: str, bound: socket.socket) -> None:
        """Serve the connections of one more socket as those of the listener of this name. Raises
        ListenFailed.
        """
        more = self._listener(self._named[name].plan, bound)
        more.open()
        self._more.append(more)
        more.start()

    def reload_certificates(self) -> None:
        """Use what is in the files of all key stores and trust stores now. Raises SettingError."""
        for tls in self._tls.values():
            tls.reload()

    def share(self) -> dict[str, list[socket.socket]]:
        """Return second descriptors of the sockets, by listener. The caller closes them."""
        shared: dict[str, list[socket.socket]] = {}
        for listener in self:
            shared.setdefault(listener.plan.bind.name, []).append(listener.share())
        return shared

    def close(self) -> None:
        """Accept no more connections. A second call does nothing."""
        for listener in self:
            listener.close()
        for tls in self._tls.values():
            tls.close()

    def close_descriptors(self) -> None:
        """Close this process's copies of the sockets only; see `Server.close_descriptors`."""
        for listener in self:
            listener.close_descriptor()

    @property
    def names(self) -> list[str]:
        """The names, in the order of the settings."""
        return list(self._named)

    def __getitem__(self, name: str) -> Listener:
        return self._named[name]

    def __iter__(self) -> Iterator[Listener]:
        return iter((*self._named.values(), *self._more))

    def __str__(self) -> str:
        """The bound addresses, as the settings have them: ``PLAINTEXT://localhost:9092``."""
        binds = ((listener.plan.bind, listener.port) for listener in self._named.values())
        return ", ".join(str(bind._replace(port=port)) for bind, port in binds)

    def _listener(self, plan: ListenerConfig, bound: socket.socket) -> Listener:
        tls = self._tls.get(plan.bind.name)
        rate = self._rates.of_listener(plan.bind.name)
        listener = Listener(plan, bound, self._registry, self._quotas, rate, self._config, tls)
        listener.sasl = self._sasl.get(plan.bind.name)
        return listener


def _close_later(sockets: Iterable[socket.socket], cleanup: ExitStack) -> None:
    for each in sockets:
        cleanup.callback(each.close)
