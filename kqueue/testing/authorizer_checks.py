"""Public contract checks for authorizers, for the tests of an authorizer plugin."""

from __future__ import annotations

import itertools
import random
import time
from functools import partial

from kqueue.security.acls import AclBinding, AclIndex
from kqueue.security.authorizer import Action, Authorizer, AuthorizerSetup, Client
from kqueue.security.authorizers import AuthorizerFactory
from kqueue.security.operations import CLUSTER_NAME, AclOperation, AclPermission, PatternType, ResourceType
from kqueue.security.principals import ANONYMOUS, Principal
from kqueue.testing.contract_checks import Check, Checks, ContractTrial
from kqueue.testing.isolation import check_contract

ACTION_MS_MAX = 1.0
"""Processor time of one action, on average, in ms: all other clients wait for it."""
_FactoryTrial = ContractTrial[AuthorizerFactory]
_ROOT = Principal("User", "root")
_NAMES = ("orders", "a.b", "a_b", "*", "", "ä\u0308", "a" * 249, "x" * 32_767, CLUSTER_NAME)
_OPERATIONS = [operation for operation in AclOperation if operation > AclOperation.ALL]
_TYPES = [kind for kind in ResourceType if kind > ResourceType.ANY]


def check_authorizer(
    factory: AuthorizerFactory | str, *, seed: int = 1, time_limit_s: float = 60, isolated: bool = True
) -> None:
    """Check that the authorizers of `factory` meet `kqueue.security.authorizer`.

    Of one that says `uses_acls` also: that its decisions follow each change of the ACLs at once,
    that a denial outweighs a permission, and that super users may do everything.

    Args:
        factory: called with an `AuthorizerSetup`; or its ``module:object`` path.
        seed: seeds the questions.
        time_limit_s: limit for all checks together, in seconds.
        isolated: False runs the checks in this process, without a time limit, for objects that
            cannot be pickled.
    Raises:
        AssertionError: a check failed; the message names the check, the call and the result.
        TypeError: `factory` cannot be sent to another process.
    """
    check_contract(AUTHORIZER_CHECKS, factory, {"seed": seed}, time_limit_s=time_limit_s, isolated=isolated)


def _check_answers(trial: _FactoryTrial) -> None:
    authorizer = _authorizer(trial, _setup())
    for client, actions in _questions(trial):
        _ask(trial, authorizer, client, actions)
    assert _ask(trial, authorizer, _client(ANONYMOUS), []) == [], "no actions must give no answers"


def _check_any(trial: _FactoryTrial) -> None:
    authorizer = _authorizer(trial, _setup())
    for principal, operation, kind in itertools.product((ANONYMOUS, _ROOT), _OPERATIONS, _TYPES):
        what = f"authorize_any({principal}, {operation.name}, {kind.name})"
        answer = trial.ask(what, partial(authorizer.authorize_any, _client(principal), operation, kind))
        assert type(answer) is bool, f"{what} gave {answer!r:.100}, expected a bool"


def _check_order(trial: _FactoryTrial) -> None:
    authorizer, rng = _authorizer(trial, _setup()), random.Random(trial.options["seed"])
    for client, actions in _questions(trial):
        answers = dict(zip(actions, _ask(trial, authorizer, client, actions), strict=True))
        rng.shuffle(actions)
        again = _ask(trial, authorizer, client, actions)
        assert again == [answers[action] for action in actions], (
            f"{client.principal} was answered otherwise when asked the same in another order: {actions!r:.300}"
        )


def _check_time(trial: _FactoryTrial) -> None:
    authorizer, client = _authorizer(trial, _setup()), _client(ANONYMOUS)
    actions = [Action(AclOperation.READ, ResourceType.TOPIC, f"topic-{number}") for number in range(1000)]
    began = time.process_time()
    _ask(trial, authorizer, client, actions)
    ms = (time.process_time() - began) * 1000 / len(actions)
    assert ms <= ACTION_MS_MAX, f"an action took {ms:.2f} ms of processor time, expected at most {ACTION_MS_MAX}"


def _check_acls(trial: _FactoryTrial) -> None:
    setup = _setup()
    authorizer = _authorizer(trial, setup)
    if getattr(authorizer, "uses_acls", False) is not True:
        return
    client, action = _client(Principal("User", "ann")), Action(AclOperation.READ, ResourceType.TOPIC, "orders")
    allow = _binding(AclPermission.ALLOW, PatternType.LITERAL, "orders")
    deny = _binding(AclPermission.DENY, PatternType.PREFIXED, "ord")

    def expect(expected: bool, when: str) -> None:
        decision = _ask(trial, authorizer, client, [action])[0]
        assert decision is expected, f"User:ann reading the topic orders {when}: expected {expected}, found {decision}"

    expect(False, "without an ACL")
    setup.acls.add(allow)
    expect(True, f"after adding {allow}")
    setup.acls.add(deny)
    expect(False, f"after adding {deny} to it")
    setup.acls.discard(deny)
    expect(True, f"after removing {deny}")
    setup.acls.is_complete = False
    expect(False, "while not all ACLs are known")
    root = _ask(trial, authorizer, _client(_ROOT), [action])[0]
    assert root is True, "a super user was denied"


def _setup() -> AuthorizerSetup:
    return AuthorizerSetup(AclIndex(), frozenset((_ROOT,)))


def _binding(permission: AclPermission, pattern_type: PatternType, name: str) -> AclBinding:
    return AclBinding(ResourceType.TOPIC, name, pattern_type, "User:ann", "*", AclOperation.READ, permission)


def _client(principal: Principal) -> Client:
    return Client(principal, "10.0.0.7", "SASL_SSL")


def _questions(trial: _FactoryTrial) -> list[tuple[Client, list[Action]]]:
    rng = random.Random(trial.options["seed"])
    actions = [Action(*row) for row in itertools.product(_OPERATIONS, _TYPES, _NAMES)]
    principals = (ANONYMOUS, _ROOT, Principal("User", "*"), Principal("User", "CN=ann,O=x"), Principal("Group", "ä"))
    return [(_client(principal), rng.sample(actions, 200)) for principal in principals]


def _authorizer(trial: _FactoryTrial, setup: AuthorizerSetup) -> Authorizer:
    what = "the factory, called with an AuthorizerSetup,"
    authorizer = trial.ask(what, lambda: trial.plugin(setup))
    for name in ("authorize", "authorize_any"):
        assert callable(getattr(authorizer, name, None)), f"{what} gave {authorizer!r:.200}, which has no {name}()"
    return authorizer


def _ask(trial: _FactoryTrial, authorizer: Authorizer, client: Client, actions: list[Action]) -> list[bool]:
    what = f"authorize({client.principal}, {actions!r:.300})"
    answers = list(trial.ask(what, lambda: authorizer.authorize(client, tuple(actions))))
    assert len(answers) == len(actions), f"{what} gave {len(answers)} answers to {len(actions)} actions"
    wrong = next((answer for answer in answers if type(answer) is not bool), None)
    assert wrong is None, f"{what} gave {wrong!r:.100}, expected bools"
    return answers


AUTHORIZER_CHECKS = Checks(
    "authorizer",
    (
        Check("authorize answers each action with a bool", _check_answers),
        Check("authorize_any answers with a bool", _check_any),
        Check("the same questions have the same answers in any order", _check_order),
        Check("it is fast enough for the broker's thread", _check_time),
        Check("its decisions follow the ACLs (uses_acls)", _check_acls),
    ),
)
