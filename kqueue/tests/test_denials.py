"""A document that denies a feature is true: what would show the feature does not exist.

Each denying sentence has a row in `DENIED`, which fails once the feature exists, or in
`NOT_FEATURES`, because it denies something else. A new sentence without a row fails.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator

import click

from kqueue.api import handler_table
from kqueue.base.settings import Prefix, Scope
from kqueue.cli.app import kqueue
from kqueue.config.catalog import CATALOG
from kqueue.config.kafka_settings import REASONS, REFUSALS, refusal_of
from kqueue.security.sasl.login import MODULES
from kqueue.tests.denials import denials
from kqueue.tests.source_tree import PACKAGE, ROOT
from kqueue.tests.tables import for_each

Holds = Callable[[], bool]


def no_listener_setting(name: str) -> Holds:
    """The setting exists, but not for one listener."""
    return lambda: CATALOG.broker[name].prefix is Prefix.NONE


def refused(name: str) -> Holds:
    """A setting of Kafka that asks for the feature is refused, because no layer declares it."""
    return lambda: refusal_of(name) is not None and name not in CATALOG.broker


def no_api(*names: str) -> Holds:
    """No handler serves one of these APIs."""
    return lambda: not {row.api.name for row in handler_table.all_handlers()} & set(names)


def no_command(*names: str) -> Holds:
    """`kqueue` has no command of one of these names."""
    return lambda: not set(kqueue.list_commands(click.Context(kqueue))) & set(names)


def no_extra(*names: str) -> Holds:
    """pyproject.toml has no extra of one of these names."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    return lambda: not extras.keys() & set(names)


def no_package(name: str) -> Holds:
    """kqueue has no package or module of this name at its top."""
    return lambda: not (PACKAGE / name).exists() and not (PACKAGE / f"{name}.py").exists()


def no_mechanism(name: str) -> Holds:
    """The mechanism of SASL is not known."""
    return lambda: name not in MODULES


def without(path: str, *words: str) -> Holds:
    """A file of the source does not have these words, which the feature would need."""
    return lambda: not any(word in (ROOT / path).read_text() for word in words)


QUORUM = no_api("AddRaftVoter", "RemoveRaftVoter", "AlterPartition")
KERBEROS = no_mechanism("GSSAPI")

DENIED: dict[str, tuple[Holds, ...]] = {
    "What kqueue leaves out: a KRaft quorum, Kerberos": (QUORUM, KERBEROS),
    "kqueue is not on a package index yet": (without("kqueue/base/extras.py", "pip install 'kqueue"),),
    "here is no controller quorum": (QUORUM,),
    "kqueue has no controller quorum": (QUORUM,),
    "Kafka's default, GSSAPI, is not supported": (KERBEROS,),
    "Kerberos is not supported": (KERBEROS,),
    "Kerberos (GSSAPI) is not supported": (KERBEROS,),
    "a guard or a limit that kqueue does not have": (refused("ssl.engine.factory.class"),),
    "limits of one listener": (no_listener_setting("max.connections"),),
    "a limit on the connections of one listener": (
        no_listener_setting("max.connections"),
        no_listener_setting("max.connections.per.ip"),
    ),
    "a TLS engine written in Java": (refused("ssl.engine.factory.class"),),
    "a policy that checks topics and settings": (
        refused("create.topic.policy.class.name"),
        refused("alter.config.policy.class.name"),
    ),
    "a class that decides which quota holds": (refused("client.quota.callback.class"),),
    "principals that a class builds": (refused("principal.builder.class"),),
    "authentication by a class written in Java": (refused("sasl.login.class"),),
    "data folders that receive no new partitions": (refused("cordoned.log.dirs"),),
    "There is no renegotiation and no compression": (
        lambda: "OP_NO_COMPRESSION" in (PACKAGE / "network" / "tls_context.py").read_text(),
        lambda: "OP_NO_RENEGOTIATION" in (PACKAGE / "network" / "tls_context.py").read_text(),
    ),
    "There are no exporters, no data encryption keys": (
        without("kqueue/schema_registry/rest/app.py", "exporters", "encryption", "associations", "catalog"),
    ),
    "there are no revocation lists": (without("kqueue/network/tls_context.py", "VERIFY_CRL"),),
}
"""By a part of the sentence: what holds as long as it is true."""

NOT_FEATURES = (
    "An API that is not served has its reason",
    "A single broker has no second one",
    "With ZooKeeper or PostgreSQL there is no folder",
    "A cluster of an earlier kqueue has no stamps",
    "Where a log has no producers there is no job",
    "there are no wheels of it for musl",
    "settings that kqueue does not know",
    "above the quota there is no such topic yet",
    "There are no passwords, tokens, keys or payloads in it",
    "Unset: there are no delegation tokens",
    "Kafka has no such setting for signed tokens",
    "There is no jar to download and nothing to register",
    "`kqueue does not support Update mode`",
    "there is no Java that could run",
    "there is no RPC to the controller",
    "Without security settings there is no authorizer",
    "no client is served meanwhile",
    "Something holds the event loop, so no client is served",
    "A data folder can't be used, and its partitions are not served",
    "has the name of a partition, which is not served",
    "have records of one partition, which is not served",
    "they are not served, the rest is",
    "and is not served until the next start",
    "could not be verified, and is not served",
    "A log can't be recovered, and is not served",
    "have no state yet, and are not served to it",
)
"""Parts of sentences that deny no feature: states, other programs, and what is not needed."""


def texts() -> Iterator[tuple[str, str]]:
    """Yield what is searched, with a name: documents, help texts and reasons of settings."""
    for path in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]):
        name = str(path.relative_to(ROOT))
        if path.name not in ("CHANGELOG.md", "testing-reference.md") and "decisions" not in path.parts:
            yield name, path.read_text(encoding="utf-8")
    for scope in Scope:
        for row in CATALOG.rows(scope).values():
            yield f"the setting {row.name}", row.doc
    for pattern, reason in REASONS:
        yield f"the reason for {pattern}", reason


def denials_of_texts() -> list[tuple[str, str]]:
    """Return each denying sentence with the name of its text; a refusal always denies."""
    denied = [(name, sentence) for name, text in texts() for sentence in denials(text)]
    return denied + [(f"the refusal of {pattern}", refusal.asks_for) for pattern, refusal in REFUSALS]


FOUND = denials_of_texts()


def test_each_sentence_that_denies_a_feature_has_a_row() -> None:
    known = (*DENIED, *NOT_FEATURES)
    assert [f"{name}: {sentence}" for name, sentence in FOUND if not any(part in sentence for part in known)] == []


@for_each("part", DENIED)
def test_denied_features_do_not_exist(part: str) -> None:
    assert all(holds() for holds in DENIED[part]), f"this exists now: mend the sentences with {part!r}"


def test_each_row_is_of_a_sentence() -> None:
    assert [part for part in (*DENIED, *NOT_FEATURES) if not any(part in sentence for _, sentence in FOUND)] == []


@for_each(
    "sentence",
    [
        "- No tiered storage.",
        "kqueue does not use ZooKeeper",
        "no secrets are stored",
        "no metrics are reported",
        "connections between brokers need no such setting",
        "TLS will need a non-blocking `SSLSocket`.",
        "Transactions are not yet supported.",
        "Share groups are not served.",
    ],
)
def test_a_denial_is_found(sentence: str) -> None:
    assert denials(f"It is so.\n\n{sentence}\n\nAnd so on.")


def test_the_predicates_fail_for_what_exists() -> None:
    assert not no_listener_setting("max.connection.creation.rate")()
    assert not no_api("Produce")()
    assert not no_command("serve")()
    assert not no_extra("cli")()
    assert not no_package("log")()
    assert not no_mechanism("PLAIN")()
    assert not refused("log.dirs")()
    assert not without("kqueue/app.py", "import")()
