"""The standard authorizer beside Kafka's, on random sets of ACLs with names that look alike."""

from __future__ import annotations

import random
from pathlib import Path
from typing import NamedTuple

import pytest

from compat_tests.kafka.tool_host import ToolHost
from kqueue.security.acls import AclBinding, AclIndex
from kqueue.security.authorizer import Action, AuthorizerSetup, Client
from kqueue.security.operations import (
    CLUSTER_NAME,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from kqueue.security.principals import parse_principal
from kqueue.security.standard_authorizer import StandardAuthorizer

SETS = 10_000
ASKED = 8
SUPER_USERS = "User:root;User:CN=root,O=x"
NAMES = ("a", "a.", "a.b", "a_b", "ab", "a.bc", "a.b.c", "A", "*", "*a", "**", "ä", "ä", "😀", "hard", "hardcode", "zz")
PRINCIPALS = ("User:ann", "User:bob", "User:*", "User:Ann", "Group:ann", "Group:*", "User:CN=ann,O=x", "User:root")
HOSTS = ("*", "10.0.0.7", "10.0.0.70", "0:0:0:0:0:0:0:1")
OPERATIONS = [operation for operation in AclOperation if operation > AclOperation.ALL]
TYPES = [kind for kind in ResourceType if kind > ResourceType.ANY]


class Case(NamedTuple):
    """A set of ACLs, and what is asked; an action without a name asks for any."""

    bindings: list[AclBinding]
    asked: list[tuple[Client, Action]]
    allow_everyone: bool

    @property
    def ours(self) -> str:
        setup = AuthorizerSetup(
            AclIndex(self.bindings), frozenset(map(parse_principal, SUPER_USERS.split(";"))), self.allow_everyone
        )
        authorizer = StandardAuthorizer(setup)
        answers = ""
        for client, action in self.asked:
            if action.name:
                answers += str(int(authorizer.authorize(client, [action])[0]))
            else:
                answers += str(int(authorizer.authorize_any(client, action.operation, action.resource_type)))
        return answers

    @property
    def lines(self) -> list[str]:
        rows: list[tuple[object, ...]] = [("set", str(self.allow_everyone).lower(), SUPER_USERS)]
        rows += [("acl", *(int(word) if isinstance(word, int) else word for word in row)) for row in self.bindings]
        for client, action in self.asked:
            asked = client.principal, client.host, int(action.operation), int(action.resource_type)
            rows.append(("ask", *asked, action.name) if action.name else ("any", *asked))
        return ["\t".join(map(str, row)) for row in rows]


def random_case(rng: random.Random) -> Case:
    """A case of few types, names and principals, so that its ACLs and questions meet."""
    types, names = rng.sample(TYPES, 2), rng.sample(NAMES, rng.randint(1, 8))
    operations = rng.sample(OPERATIONS, rng.randint(1, 5))
    principals, hosts = rng.sample(PRINCIPALS, rng.randint(1, 4)), rng.sample(HOSTS, rng.randint(1, 3))

    clients = [name for name in principals if name != "User:*"] or ["User:eve"]  # Kafka can't decide for it

    def binding() -> AclBinding:
        kind = rng.choice(types)
        return AclBinding(
            kind,
            CLUSTER_NAME if kind is ResourceType.CLUSTER else rng.choice(names),
            rng.choice((PatternType.LITERAL, PatternType.PREFIXED)),
            rng.choice(principals),
            rng.choice(hosts),
            rng.choice((*operations, AclOperation.ALL)),
            AclPermission.ALLOW if rng.random() < 0.7 else AclPermission.DENY,
        )

    def question() -> tuple[Client, Action]:
        host = rng.choice([host for host in hosts if host != "*"] or ["192.168.1.1"])
        asked = [name for name in (*names, *NAMES, CLUSTER_NAME) if name == "*" or not name.startswith("*")]
        name = rng.choice(asked) if rng.random() < 0.75 else ""
        return (
            Client(parse_principal(rng.choice(clients)), host, "SASL_SSL"),
            Action(rng.choice((*operations, rng.choice(OPERATIONS))), rng.choice(types), name),
        )

    bindings = list(dict.fromkeys(binding() for _ in range(rng.randint(0, 12))))
    return Case(bindings, [question() for _ in range(ASKED)], rng.random() < 0.3)


def of_kafka(tools: ToolHost, file: Path, cases: list[Case]) -> list[str]:
    """The answers of Kafka's authorizer, as `Case.ours`."""
    file.write_text("".join(f"{line}\n" for case in cases for line in case.lines))
    done = tools.run("AclDecisions", file)
    assert done.status == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("seed", [1, 2])
def test_decisions_are_those_of_kafka(tools: ToolHost, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    cases = [random_case(rng) for _ in range(SETS // 2)]
    kafkas = of_kafka(tools, tmp_path / "sets", cases)
    allowed = sum(answers.count("1") for answers in kafkas) / len(cases) / ASKED
    assert 0.1 < allowed < 0.9, "the cases say little"
    for case, theirs in zip(cases, kafkas, strict=True):
        assert case.ours == theirs, "\n".join([*map(str, case.bindings), *map(str, case.asked)])


def test_kafka_applies_no_wildcard_to_names_that_begin_with_one(tools: ToolHost, tmp_path: Path) -> None:
    """A difference on purpose: in Kafka the group `*a` escapes what is denied for all groups."""
    kind, ann = ResourceType.GROUP, Client(parse_principal("User:ann"), "10.0.0.7", "SASL_SSL")
    allow = AclBinding(kind, "*a", PatternType.LITERAL, "User:ann", "*", AclOperation.READ, AclPermission.ALLOW)
    deny = allow._replace(name="*", permission=AclPermission.DENY)
    asked = [(ann, Action(AclOperation.READ, kind, "*a"))]
    cases = [Case([allow, deny], asked, False), Case([deny._replace(permission=AclPermission.ALLOW)], asked, False)]
    assert of_kafka(tools, tmp_path / "sets", cases) == ["1", "0"]
    assert [case.ours for case in cases] == ["0", "1"]
