"""`RegistryServer`: a registry that runs: its topic, its election, its HTTP server."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import socket
import threading
from collections.abc import Iterator

from starlette.types import ASGIApp, Receive, Scope, Send

from kqueue.base import events
from kqueue.base.key_stores import StoreSettings
from kqueue.config.tls_client import TlsClientSettings
from kqueue.schema_registry.access.basic_authentication import BasicAuthenticator
from kqueue.schema_registry.access.broker_acls import BrokerAcls
from kqueue.schema_registry.access.broker_login import BrokerLogin
from kqueue.schema_registry.access.topic_authorizer import TopicAuthorizer
from kqueue.schema_registry.access.users_file import UsersFile
from kqueue.schema_registry.election.election_member import ElectionMember
from kqueue.schema_registry.election.failover_forwarder import FailoverForwarder
from kqueue.schema_registry.election.group_messages import RegistryIdentity
from kqueue.schema_registry.election.settled_leadership import SettledLeadership
from kqueue.schema_registry.election.sole_writer import SoleWriter
from kqueue.schema_registry.forwarding import HttpForwarder
from kqueue.schema_registry.options import RegistryOptions
from kqueue.schema_registry.registry import Registry
from kqueue.schema_registry.request_meter import RequestMeter
from kqueue.schema_registry.rest.app import registry_app
from kqueue.schema_registry.rest.contract import ClusterIds, Forwarder, Leadership
from kqueue.schema_registry.topic.reader import SchemaTopicReader
from kqueue.schema_registry.topic.topic_log import SchemaTopicLog
from kqueue.schema_registry.topic.topic_preparation import prepare_topic
from kqueue.security.tls_config import TLS_1_2, TLS_1_3
from kqueue.web.http_server import HttpServer

WAIT_STEP_S = 0.1
logger = logging.getLogger("kqueue.schema_registry")


class RegistryServer:
    """A schema registry that serves. Its constructor reads the topic to its end.

    Attributes:
        url, port: its address for clients, without a slash at its end.
        registry: its operations, without HTTP.
    Raises: ListenFailed: the address is in use. ClientError: no broker answers, or it refuses.
        StoreUnavailable: the topic can't be used. SettingError: a file of the options. OSError,
        ssl.SSLError: the certificate.
    """

    def __init__(self, options: RegistryOptions) -> None:
        self._options = options
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._app = _LateApp()
        with contextlib.ExitStack() as started:
            self._http = HttpServer(
                self._app, options.host, options.port, tls_cert=options.tls_cert, tls_key=options.tls_key
            )
            started.callback(self._http.close)
            self.url, self.port = self._http.url, self._http.port
            cluster_id = prepare_topic(options.client, options.topic).cluster_id
            self._log = SchemaTopicLog(
                options.client,
                options.topic,
                fence=f"{options.group}-writer" if options.elects else None,
                caught_up=self._has_caught_up,
                between_changes=self._between_changes,
                reader_failure=lambda: self._reader.failure,
            )
            started.callback(self._log.close)
            self.registry = Registry(self._log, compatibility=options.compatibility)
            self._reader = SchemaTopicReader(options.client, options.topic, self.registry.apply)
            started.callback(self._reader.close)
            self._reader.load()
            self._reader.start()
            leadership = self._begin_election(started)
            self._app.app = self._application(leadership, ClusterIds(cluster_id or "", options.group), started)
            started.callback(self._stopping.set)  # first of all at the end
            self._started = started.pop_all()
        events.REGISTRY_STARTED.log(
            logger,
            "the schema registry serves %s from topic %s, read to offset %s",
            url=self.url,
            topic=options.topic,
            offset=self.registry.applied_offset,
        )

    def start(self) -> RegistryServer:
        """Serve in a thread until `close`; clients can connect at once."""
        self._thread = threading.Thread(target=self._http.run, name="kqueue-registry-http", daemon=True)
        self._thread.start()
        return self

    def run(self) -> None:
        """Serve in this thread until `stop`."""
        self._http.run()

    def stop(self) -> None:
        """Have `run` end. Thread: any, also in a signal's handler."""
        self._http.stop()

    def close(self) -> None:
        """Serve no more: answer the requests under way, leave the election, close connections. A
        second call does nothing.
        """
        self._http.stop()
        if self._thread is not None:
            self._thread.join()
        self._started.close()

    def close_descriptor(self) -> None:
        """Close the listening socket in a forked process, whose threads are not there."""
        self._http.close_descriptor()

    @property
    def is_leader(self) -> bool:
        """Whether this registry writes."""
        return self._leadership.is_leader()

    # --- parts

    def _begin_election(self, started: contextlib.ExitStack) -> Leadership:
        """Return what requests ask; `_leadership` knows without a wait."""
        options = self._options
        leadership: ElectionMember | SoleWriter
        if options.elects:
            url = options.advertised_url or self._reachable_url()
            identity = RegistryIdentity.of_url(url, is_eligible=options.is_eligible)
            leadership = ElectionMember(
                options.client, options.group, identity, self._log, times=options.election_times
            )
        else:
            leadership = SoleWriter(self._log)
        self._log.lost_claim = leadership.wake
        started.callback(leadership.close)
        started.callback(self._log.close)  # before, since the leadership may wait in a claim
        self._leadership = leadership
        leadership.start()
        return SettledLeadership(leadership) if isinstance(leadership, ElectionMember) else leadership

    def _application(self, leadership: Leadership, cluster: ClusterIds, started: contextlib.ExitStack) -> ASGIApp:
        options = self._options
        authenticator = _authenticator(options)
        authorizer = None
        if options.uses_acls:
            authorizer = TopicAuthorizer(options.super_users)
            acls = BrokerAcls(options.client, authorizer.use)
            started.callback(acls.close)
            acls.start()
        meter = RequestMeter()
        app = registry_app(
            self.registry,
            leadership=leadership,
            forwarder=self._forwarder(),
            authenticator=authenticator,
            authorizer=authorizer,
            cluster=cluster,
            observe=meter.count,
        )
        if importlib.util.find_spec("prometheus_client") is None:
            return app
        from kqueue.schema_registry.metrics import RegistryGauges, WithMetrics

        gauges = RegistryGauges(
            self.registry.catalog,
            self._leadership.is_leader,
            lambda: self._reader.is_connected,
            lambda: self.registry.applied_offset,
        )
        return WithMetrics(app, meter, gauges, authenticator)

    def _forwarder(self) -> Forwarder | None:
        if not isinstance(self._leadership, ElectionMember):
            return None
        return FailoverForwarder(HttpForwarder(_leader_tls(self._options)), self._leadership)

    def _has_caught_up(self, offset: int, timeout_s: float) -> bool:
        """Wait as `Registry.wait_for`, but no longer than this registry runs."""
        steps = max(1, round(timeout_s / WAIT_STEP_S))
        return any(self.registry.wait_for(offset, WAIT_STEP_S) for _ in range(steps) if not self._stopping.is_set())

    @contextlib.contextmanager
    def _between_changes(self) -> Iterator[None]:
        with self.registry.between_changes():
            yield

    def _reachable_url(self) -> str:
        host = self._options.host
        if host in ("", "0.0.0.0", "::"):
            return f"{self.url.partition('://')[0]}://{socket.getfqdn()}:{self._http.port}"
        return self.url


class _LateApp:
    """An application that is known before the server runs, and after it listens."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)


def _authenticator(options: RegistryOptions) -> BasicAuthenticator | None:
    if options.users_file is not None:
        return BasicAuthenticator(UsersFile(options.users_file))
    return None if options.login is None else BasicAuthenticator(BrokerLogin(options.client, options.login))


def _leader_tls(options: RegistryOptions) -> TlsClientSettings:
    trusted = StoreSettings("--leader-ca", "PEM", location=options.leader_ca)
    return TlsClientSettings(StoreSettings("", "PEM"), trusted, (TLS_1_2, TLS_1_3), (), check_host=True)
