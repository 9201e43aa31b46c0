"""docs/reference/settings.md is made of the rows of all settings.

`python -m kqueue.tests.docs.test_settings` writes it.
"""

from __future__ import annotations

import re
from collections import defaultdict

from kqueue.base.settings import ANY, Prefix, Scope, Setting, format_value
from kqueue.config.catalog import CATALOG
from kqueue.config.kafka_settings import SettingEffect, SettingSummary, all_settings
from kqueue.tests.doc_pages import Page, run_line
from kqueue.tests.source_tree import ROOT

PAGE = Page("docs/reference/settings.md")
SHOWN_MAX = 60
"""Characters of a default or of what is accepted; a longer one is in `kqueue settings`."""
HEAD = """\
# Settings

Derived from the code: `python -m kqueue.tests.docs.test_settings` writes this page.

`kqueue serve FILE` reads Kafka's `server.properties`; `--set NAME=VALUE` and `KQUEUE_NAME` in the environment set one,
`kqueue.Broker(settings={...})` in a program. [A broker as a server](../server.md) has how they combine, and
[Security](../security.md) the smallest safe set-up. The command prints what this page has, for one name or some:

```sh
kqueue settings log.retention.ms
kqueue settings --effect refused
```

Names that begin with `kqueue.` are kqueue's own. All others are Kafka's, and mean what they mean in Kafka 4.3, unless
the text says otherwise. *At run time*: `kqueue configs alter` changes it while brokers run, for all brokers
(`cluster-wide`) or for one (`per-broker`); the others need a restart. Settings of topics, groups and subscriptions can
always be changed. *L*: `listener.name.LISTENER.NAME` sets it for one listener; *M*: and
`listener.name.LISTENER.MECHANISM.NAME` for one mechanism of SASL.
"""
TITLES = {
    Scope.BROKER: ("Brokers", "in the file of a broker, or altered for brokers"),
    Scope.TOPIC: ("Topics", "given when a topic is created, or altered"),
    Scope.GROUP: ("Groups", "altered for a group: `kqueue configs alter groups`"),
    Scope.CLIENT_METRICS: ("Subscriptions to metrics of clients", "altered for a subscription"),
}
WITHOUT_EFFECT = """\
## Accepted without an effect

Settings of Kafka 4.3 that kqueue accepts, with a warning in its log: nothing that they ask for would be missing.

| setting | why |
|---|---|
"""
REFUSED = """\
## Refused

Settings of Kafka 4.3 that ask for a guard or a limit that kqueue does not have. A broker does not start with them.

| setting | why |
|---|---|
"""
WHERE = {Prefix.NONE: "", Prefix.LISTENER: "L", Prefix.MECHANISM: "L, M"}


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "\\<")


def shown(text: str) -> str:
    return cell(text) if len(text) <= SHOWN_MAX else "see `kqueue settings`"


def default_of(row: Setting) -> str:
    value = format_value(row.default)
    if value is None:
        return ""
    if not value:
        return "empty"
    return f"`{cell(value)}`" if len(value) <= SHOWN_MAX else "see `kqueue settings`"


def line(row: Setting, about: str) -> str:
    kind = row.kind.name.lower()
    accepted = kind if row.valid.description == ANY.description else f"{kind}, {shown(row.valid.description)}"
    cells = [f"`{row.name}`", cell(about), accepted, default_of(row)]
    if row.scope is Scope.BROKER:
        cells += [WHERE[row.prefix], "" if row.is_read_only else row.dynamic.value]
    elif row.scope is Scope.TOPIC:
        cells.append(", ".join(f"`{synonym.name}`" for synonym in row.synonyms))
    return f"| {' | '.join(cells)} |\n"


def table(scope: Scope, lines: list[SettingSummary]) -> str:
    """Return the section of a scope: those with an effect."""
    title, where = TITLES[scope]
    columns = {Scope.BROKER: ["for", "at run time"], Scope.TOPIC: ["default of the broker"]}.get(scope, [])
    head = ["setting", "meaning", "type", "default", *columns]
    rows = CATALOG.rows(scope)
    body = [line(rows[each.name], each.about) for each in lines]
    return f"## {title}\n\nThey are {where}.\n\n| {' | '.join(head)} |\n|{'---|' * len(head)}\n{''.join(body)}"


def without_effect(lines: list[SettingSummary]) -> str:
    """Return the rows of settings without an effect, by reason."""
    names = defaultdict(list)
    for each in lines:
        names[each.about.removeprefix("No effect: ")].append(f"`{each.name}`")
    return "".join(f"| {', '.join(names[reason])} | {cell(reason)} |\n" for reason in sorted(names))


def page() -> str:
    summaries = all_settings(CATALOG)
    does = [each for each in summaries if each.effect is SettingEffect.DOES]
    sections = [table(scope, [each for each in does if each.scope == scope.value]) for scope in TITLES]
    warned = [each for each in summaries if each.effect is SettingEffect.WARNED]
    refused = [
        f"| `{each.name}` | {cell(each.about)} |\n" for each in summaries if each.effect is SettingEffect.REFUSED
    ]
    return "\n".join([HEAD, *sections, WITHOUT_EFFECT + without_effect(warned), REFUSED + "".join(refused)])


def test_the_page_is_that_of_the_code() -> None:
    assert PAGE.text == page(), "run python -m kqueue.tests.docs.test_settings"


def test_every_setting_is_named() -> None:
    named = set(re.findall(r"`([\w.-]+)`", PAGE.text))
    assert {each.name for each in all_settings(CATALOG)} <= named


def test_the_commands_run() -> None:
    one, refused = PAGE.commands()
    assert "log.retention.ms" in run_line(one, ROOT)
    assert "alter.config.policy.class.name" in run_line(refused, ROOT)


if __name__ == "__main__":
    (ROOT / PAGE.name).write_text(page(), encoding="utf-8")
