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
