"""Tests of `kqueue.security.standard_authorizer` against a model that looks at every entry.

`compat_tests/kafka` compares it with Kafka's own authorizer.
"""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from kqueue.security.acls import AclBinding, AclIndex
from kqueue.security.authorizer import Action, AuthorizerSetup, Client
from kqueue.security.operations import AclOperation, AclPermission, PatternType, ResourceType
from kqueue.security.principals import parse_principal
from kqueue.security.standard_authorizer import DECISIONS_MAX, NAME_LENGTH_MAX, StandardAuthorizer
from kqueue.testing import check_authorizer
from kqueue.tests.security.acl_strategies import ACTIONS, BINDINGS, CLIENTS, acl, client
from kqueue.tests.tables import for_each

READ_ORDERS = Action(AclOperation.READ, ResourceType.TOPIC, "orders")
ANN = client("User:ann")
ROOT = parse_principal("User:root")


def authorizer(*bindings: AclBinding, allow_everyone: bool = False) -> StandardAuthorizer:
    return StandardAuthorizer(AuthorizerSetup(AclIndex(bindings), frozenset((ROOT,)), allow_everyone))


def decide(bindings: Iterable[AclBinding], action: Action = READ_ORDERS, who: Client = ANN) -> bool:
    return authorizer(*bindings).authorize(who, [action])[0]


def model(bindings: list[AclBinding], who: Client, action: Action, allow_everyone: bool) -> bool:
    """The decision by the words of Kafka's documentation."""
    describing = (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER)
    implying = {AclOperation.DESCRIBE: describing, AclOperation.DESCRIBE_CONFIGS: (AclOperation.ALTER_CONFIGS,)}
    of_resource = [
        binding
        for binding in bindings
        if binding.resource_type is action.resource_type
        and (
            action.name.startswith(binding.name)
            if binding.pattern_type is PatternType.PREFIXED
            else binding.name in (action.name, "*")
        )
    ]
    mine = [
        binding
        for binding in of_resource
        if binding.principal in (str(who.principal), "User:*") and binding.host in (who.host, "*")
    ]
    exact = [binding for binding in mine if binding.operation in (action.operation, AclOperation.ALL)]
    if any(binding.permission is AclPermission.DENY for binding in exact):
        return False
    implied = [binding for binding in mine if binding.operation in implying.get(action.operation, ())]
    if any(binding.permission is AclPermission.ALLOW for binding in exact + implied):
        return True
    return allow_everyone and not of_resource


@given(st.lists(BINDINGS, max_size=12), CLIENTS, st.lists(ACTIONS, max_size=8), st.booleans())
def test_decisions_are_those_of_the_model(
    bindings: list[AclBinding], who: Client, actions: list[Action], allow_everyone: bool
) -> None:
    decisions = authorizer(*bindings, allow_everyone=allow_everyone).authorize(who, actions)
    assert decisions == [model(bindings, who, action, allow_everyone) for action in actions]


@given(st.lists(BINDINGS, max_size=8), st.lists(BINDINGS, max_size=8), CLIENTS, ACTIONS)
def test_decisions_follow_changes(
    before: list[AclBinding], after: list[AclBinding], who: Client, action: Action
) -> None:
    index = AclIndex(before)
    asked = StandardAuthorizer(AuthorizerSetup(index))
    asked.authorize(who, [action])
    asked.authorize_any(who, action.operation, action.resource_type)
    for binding in before:
        index.discard(binding)
    for binding in after:
        index.add(binding)
    fresh = authorizer(*after)
    assert asked.authorize(who, [action]) == fresh.authorize(who, [action])
    assert asked.authorize_any(who, action.operation, action.resource_type) == fresh.authorize_any(
        who, action.operation, action.resource_type
    )


@given(st.lists(BINDINGS, max_size=12), CLIENTS, ACTIONS)
def test_any_is_allowed_only_if_some_name_is(bindings: list[AclBinding], who: Client, action: Action) -> None:
    asked = authorizer(*bindings)
    if not asked.authorize_any(who, action.operation, action.resource_type):
        return
    names = {binding.name + suffix for binding in bindings for suffix in ("", "~")} | {"hardcode"}
    assert any(asked.authorize(who, [action._replace(name=name)])[0] for name in names)


@for_each(
    "entry, name, allowed",
    [
        (acl(name="a.b"), "a_b", False),
        (acl(name="a_b"), "a.b", False),
        (acl(name="a.b"), "a.bc", False),
        (acl(name="a.b"), "A.b", False),
        (acl(name="\u00e4"), "a\u0308", False),
        (acl(name="orders\u200b"), "orders", False),
        (acl(name="*"), "anything", True),
        (acl(name="*"), "*", True),
        (acl(name="*", pattern_type=PatternType.PREFIXED), "anything", False),
        (acl(name="*", pattern_type=PatternType.PREFIXED), "*a", True),
        (acl(name="ord*"), "orders", False),
        (acl(name="ord", pattern_type=PatternType.PREFIXED), "ord", True),
        (acl(name="ord", pattern_type=PatternType.PREFIXED), "or", False),
        (acl(name="ord", pattern_type=PatternType.PREFIXED), "Orders", False),
        (acl(name="orders", pattern_type=PatternType.PREFIXED), "orders-eu", True),
        (acl(principal="User:Ann"), "orders", False),
        (acl(principal="Group:ann"), "orders", False),
        (acl(principal="User:*"), "orders", True),
        (acl(principal="Group:*"), "orders", False),
        (acl(principal="User:a*"), "orders", False),
        (acl(host="10.0.0.70"), "orders", False),
        (acl(host="10.0.0.*"), "orders", False),
        (acl(host="::ffff:10.0.0.7"), "orders", True),
        (acl(resource_type=ResourceType.GROUP), "orders", False),
    ],
)
def test_names_that_look_alike_are_others(entry: AclBinding, name: str, allowed: bool) -> None:
    assert decide([entry], READ_ORDERS._replace(name=name)) is allowed


@for_each("allowed", [AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER])
def test_describe_is_implied_but_not_denied_by_others(allowed: AclOperation) -> None:
    describe = READ_ORDERS._replace(operation=AclOperation.DESCRIBE)
    assert decide([acl(operation=allowed)], describe)
    assert decide(
        [acl(operation=AclOperation.DESCRIBE), acl(operation=allowed, permission=AclPermission.DENY)], describe
    )
    assert not decide([acl(operation=AclOperation.DESCRIBE)], READ_ORDERS)


@for_each("denied", [acl(), acl(name="*"), acl(name="o", pattern_type=PatternType.PREFIXED)])
def test_a_denial_outweighs_every_permission(denied: AclBinding) -> None:
    every = [acl(), acl(name="*"), acl(name="orders", pattern_type=PatternType.PREFIXED), acl(principal="User:*")]
    assert decide(every)
    assert not decide([*every, denied._replace(permission=AclPermission.DENY)])


def test_super_users_may_do_everything_also_while_acls_are_unknown() -> None:
    asked = authorizer(acl(principal="User:root", permission=AclPermission.DENY), acl())
    asked._acls.is_complete = False
    root = client("User:root")
    assert asked.authorize(root, [READ_ORDERS]) == [True]
    assert asked.authorize_any(root, AclOperation.READ, ResourceType.TOPIC)
    assert asked.authorize(ANN, [READ_ORDERS]) == [False]
    assert not asked.authorize_any(ANN, AclOperation.READ, ResourceType.TOPIC)


def test_everyone_is_allowed_only_what_no_entry_applies_to() -> None:
    asked = authorizer(acl(principal="User:bob"), allow_everyone=True)
    others = READ_ORDERS._replace(name="other")
    assert asked.authorize(ANN, [READ_ORDERS, others]) == [False, True]


@for_each(
    "entries, allowed",
    [
        ([acl()], True),
        ([acl(name="ord", pattern_type=PatternType.PREFIXED)], True),
        ([acl(name="*")], True),
        ([acl(operation=AclOperation.WRITE)], False),
        ([acl(), acl(permission=AclPermission.DENY)], False),
        ([acl(), acl(name="o", pattern_type=PatternType.PREFIXED, permission=AclPermission.DENY)], False),
        ([acl(), acl(name="orders-", pattern_type=PatternType.PREFIXED, permission=AclPermission.DENY)], True),
        ([acl(), acl(name="*", permission=AclPermission.DENY)], False),
        (
            [
                acl(name="ord", pattern_type=PatternType.PREFIXED),
                acl(name="orders", permission=AclPermission.DENY),
            ],
            True,
        ),
    ],
)
def test_any_counts_what_no_denial_covers(entries: list[AclBinding], allowed: bool) -> None:
    assert authorizer(*entries).authorize_any(ANN, AclOperation.READ, ResourceType.TOPIC) is allowed


def test_a_client_that_asks_for_ever_new_names_does_not_fill_the_memory() -> None:
    asked = authorizer(acl())
    actions = [READ_ORDERS._replace(name=str(number)) for number in range(DECISIONS_MAX + 100)]
    for start in range(0, len(actions), 1000):
        asked.authorize(ANN, actions[start : start + 1000])
    assert sum(map(len, asked._decisions.values())) <= DECISIONS_MAX
    asked.authorize(ANN, [READ_ORDERS._replace(name="x" * (NAME_LENGTH_MAX + 1))])
    assert all(len(action[-1]) <= NAME_LENGTH_MAX for kept in asked._decisions.values() for action in kept)  # type: ignore[arg-type]


def test_standard_authorizer_meets_the_contract() -> None:
    check_authorizer(StandardAuthorizer)
