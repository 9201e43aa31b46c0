"""TLS and SASL of one connection, on the client's side."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Callable
from typing import Any

from kqueue.base.addresses import Address
from kqueue.base.errors import SettingError
from kqueue.client.errors import ConnectionLost, NotAuthenticated
from kqueue.client_protocol.authentication import ClientAuthentication, CredentialsRefused, MechanismNotOffered
from kqueue.config.client_security import ClientSecurity
from kqueue.config.tls_client import client_context, handshake_error
from kqueue.security.errors import SaslAuthenticationFailed
from kqueue.security.sasl.oauthbearer import OAUTHBEARER
from kqueue.wire.apis import BY_KEY, Api
from kqueue.wire.error_codes import ErrorCode

HANDSHAKE, AUTHENTICATE = BY_KEY[17], BY_KEY[36]
REMEDY = "check sasl.mechanism and sasl.jaas.config, or sasl.username and sasl.password"
TOKEN_REMEDY = "check issuer, audience, scope and times of the token of sasl.oauthbearer.token.endpoint.url"


def encrypted(plain: socket.socket, address: Address, security: ClientSecurity) -> socket.socket:
    """Return a connection with TLS, if the protocol has it. The socket has a timeout.

    Raises: NotAuthenticated: the broker is not one that is trusted, or does not trust this client.
        OSError: the connection ended; also a timeout. All close the socket.
    """
    if security.tls is None:
        return plain
    connection: socket.socket = plain
    try:
        connection = client_context(security.tls).wrap_socket(
            plain, server_hostname=address.host, do_handshake_on_connect=False
        )
        connection.do_handshake()
    except SettingError as error:
        plain.close()
        raise NotAuthenticated(f"{address}: {error}", broker=str(address)) from None
    except ssl.SSLError as error:
        connection.close()
        reason = handshake_error(error, security.tls, address.host)
        raise NotAuthenticated(f"{address}: {reason}", broker=str(address)) from error
    except BaseException:
        connection.close()
        raise
    return connection


def authenticate(call: Callable[[Api, object], Any], address: Address, security: ClientSecurity) -> int:
    """Authenticate by SASL. Returns the session's lifetime in milliseconds; 0: it has no end.

    Args: call: sends a request and returns its response.
    Raises: NotAuthenticated: the credentials, or the mechanism, are not accepted. ClientError.
    """
    login = security.login
    assert login is not None
    broker = str(address)
    remedy = TOKEN_REMEDY if login.mechanism == OAUTHBEARER else REMEDY
    authentication = ClientAuthentication(login)
    try:
        authentication.receive(call(HANDSHAKE, authentication.begin()))
        while (request := authentication.next_request()) is not None:
            authentication.receive(call(AUTHENTICATE, request))
    except MechanismNotOffered as error:
        raise NotAuthenticated(
            f"{broker} does not offer the mechanism {login.mechanism}, only {', '.join(error.offered)}: "
            f"set sasl.mechanism",
            broker=broker,
        ) from None
    except CredentialsRefused as error:
        reason = error.reason or ErrorCode(error.code).name
        raise NotAuthenticated(
            f"{broker}: user {login.user} is not authenticated: {reason}; {remedy}", broker=broker
        ) from None
    except ConnectionLost as error:
        raise NotAuthenticated(f"{broker} ended the authentication: {error}; {remedy}", broker=broker) from error
    except SaslAuthenticationFailed as error:
        raise NotAuthenticated(f"{broker}: {error}", broker=broker) from None
    return authentication.session_lifetime_ms


def is_alive(connection: socket.socket) -> bool:
    """Return whether the other side has not closed an idle connection. Sends nothing."""
    with contextlib.suppress(OSError):
        connection.settimeout(0)
        try:
            if isinstance(connection, ssl.SSLSocket):
                connection.recv(1)  # has no MSG_PEEK; nothing but TLS's own messages may arrive
            else:
                connection.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, ssl.SSLWantReadError):
            return True
    return False  # end of stream, or unsolicited bytes
