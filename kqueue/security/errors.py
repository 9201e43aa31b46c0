"""Refusals of access control. Each names the resource only where the client may know of it."""

from __future__ import annotations

from kqueue.base.errors import RequestRefused


class TopicAuthorizationFailed(RequestRefused):
    """The client may not do this with the topic."""


class GroupAuthorizationFailed(RequestRefused):
    """The client may not do this with the group."""


class ClusterAuthorizationFailed(RequestRefused):
    """The client may not do this with the cluster."""


class TokenAuthorizationFailed(RequestRefused):
    """The client may not do this with the delegation token."""


class SecurityDisabled(RequestRefused):
    """The broker has no authorizer, or one that knows no ACLs."""


class UnacceptableCredential(RequestRefused):
    """A name, password, salt or number of iterations that a SCRAM credential may not have."""


class SaslAuthenticationFailed(RequestRefused):
    """The client's credentials are wrong. The message says nothing about which part is.

    `detail`: for the broker's log only; it has no secret.
    """

    def __init__(self, message: str, *, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail


class UnsupportedSaslMechanism(RequestRefused):
    """The listener does not have the mechanism."""


class CredentialNotFound(RequestRefused):
    """A SCRAM credential that the user does not have."""


class DuplicateCredential(RequestRefused):
    """A credential that one request names twice."""


class IllegalSaslState(RequestRefused):
    """The request does not belong into this state of authentication."""


class InvalidPrincipalType(RequestRefused):
    """A principal that is no user."""


class TokensDisabled(RequestRefused):
    """The broker has no key for delegation tokens."""


class TokenNotFound(RequestRefused):
    """No delegation token has this HMAC."""


class TokenExpired(RequestRefused):
    """The delegation token has ended."""


class TokenOwnerMismatch(RequestRefused):
    """Only the owner of a delegation token, and its renewers, may renew or end it."""


class TokenRequestNotAllowed(RequestRefused):
    """Delegation tokens are for clients that authenticated, and not by a token."""
