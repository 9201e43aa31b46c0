"""Random ACLs and clients, from few values, so that they meet; names that look alike among them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from kqueue.security.acls import AclBinding
from kqueue.security.authorizer import Action, Client
from kqueue.security.operations import CLUSTER_NAME, AclOperation, AclPermission, PatternType, ResourceType
from kqueue.security.principals import parse_principal

NAMES = ("a", "a.", "a.b", "a_b", "ab", "a.bc", "*", "*a", "\u00e4", "a\u0308", "\U0001f600", "hardcode", "har")
PRINCIPALS = ("User:ann", "User:bob", "User:*", "User:Ann", "Group:ann", "User:CN=ann,O=x")
HOSTS = ("*", "10.0.0.7", "10.0.0.70", "192.168.1.1")
OPERATIONS = [operation for operation in AclOperation if operation >= AclOperation.ALL]
TYPES = [ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID]


def acl(**fields: Any) -> AclBinding:
    """Return an entry: User:ann may read the topic orders; `fields` are others."""
    values: dict[str, Any] = {
        "resource_type": ResourceType.TOPIC,
        "name": "orders",
        "pattern_type": PatternType.LITERAL,
        "principal": "User:ann",
        "host": "*",
        "operation": AclOperation.READ,
        "permission": AclPermission.ALLOW,
    }
    return AclBinding(**{**values, **fields})


def client(principal: str, host: str = "10.0.0.7") -> Client:
    """Return a client of this principal."""
    return Client(parse_principal(principal), host, "SASL_SSL")


def _binding(row: tuple[Any, ...]) -> AclBinding:
    binding = AclBinding(*row)
    return binding._replace(name=CLUSTER_NAME) if binding.resource_type is ResourceType.CLUSTER else binding


BINDINGS = st.tuples(
    st.sampled_from(TYPES),
    st.sampled_from(NAMES),
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    st.sampled_from(PRINCIPALS),
    st.sampled_from(HOSTS),
    st.sampled_from(OPERATIONS),
    st.sampled_from([AclPermission.ALLOW, AclPermission.DENY]),
).map(_binding)
CLIENTS = st.builds(client, st.sampled_from(PRINCIPALS), st.sampled_from(HOSTS[1:]))
ACTIONS = st.builds(
    Action,
    st.sampled_from(OPERATIONS),
    st.sampled_from(TYPES),
    st.sampled_from([*NAMES, CLUSTER_NAME, "a.b.c", "**"]),
)
