"""`kqueue configs`: settings of topics, brokers, loggers, groups and client metrics at run time."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from kqueue.base.names import did_you_mean
from kqueue.base.terminal import one_line
from kqueue.base.text import counted
from kqueue.cli.completion import complete_groups, complete_settings, complete_topics
from kqueue.cli.connect import bootstrap_option, own_client, parse_name_values
from kqueue.cli.error_texts import remedy_of
from kqueue.cli.name_suggestions import similar_topic
from kqueue.cli.output import columns, output_option, print_json

if TYPE_CHECKING:
    from kqueue.client import Client, ConfigChange, ResourceType, SettingRow

ENTITY_TYPES = ("topics", "brokers", "broker-loggers", "groups", "client-metrics")
VALUE_WIDTH = 40
"""Longer values are cut in tables of many settings."""
BROKER_SOURCES = ("DYNAMIC_BROKER_CONFIG", "DYNAMIC_DEFAULT_BROKER_CONFIG", "STATIC_BROKER_CONFIG")
OF_BROKERS = ("brokers", "broker-loggers")
OWN_SOURCES = {
    "topics": "DYNAMIC_TOPIC_CONFIG",
    "brokers": "DYNAMIC_BROKER_CONFIG",
    "groups": "DYNAMIC_GROUP_CONFIG",
    "client-metrics": "DYNAMIC_CLIENT_METRICS_CONFIG",
}
SOURCE_WORDS = {
    "DYNAMIC_TOPIC_CONFIG": "topic",
    "DYNAMIC_BROKER_CONFIG": "broker",
    "DYNAMIC_DEFAULT_BROKER_CONFIG": "all brokers",
    "STATIC_BROKER_CONFIG": "broker's start",
    "DEFAULT_CONFIG": "default",
    "DYNAMIC_BROKER_LOGGER_CONFIG": "logger",
    "DYNAMIC_CLIENT_METRICS_CONFIG": "client-metrics",
    "DYNAMIC_GROUP_CONFIG": "group",
}
OPTIONS = {"SET": "--add", "DELETE": "--delete", "APPEND": "--append", "SUBTRACT": "--subtract"}
"""Of `alter`, by the operation that messages of brokers name."""
_OPERATION = re.compile(r"(?<!['\w])(SET|DELETE|APPEND|SUBTRACT)(?!['\w])")


def _complete_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the names of topics and groups, as the TYPE before says."""
    complete = {"topics": complete_topics, "groups": complete_groups}.get(_type_of(ctx))
    return complete(ctx, param, incomplete) if complete else []


def _type_of(ctx: click.Context) -> str:
    """Return the TYPE of a line that is not complete; click leaves arguments unparsed in some."""
    return str(ctx.params.get("entity_type") or next(iter(ctx.args), ""))


def _complete_settings(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the names of settings of the TYPE before, with a `=` where a value follows."""
    scope = {"topics": "topic", "groups": "group", "brokers": "broker"}.get(_type_of(ctx))
    suffix = "=" if param.name == "added" else ""
    return complete_settings(scope, suffix=suffix)(ctx, param, incomplete) if scope else []


@click.group()
def configs() -> None:
    """Show and change settings of topics, brokers, loggers, groups and client metrics.

    \b
      kqueue configs describe topics orders
      kqueue configs alter topics orders --add retention.ms=3600000 --delete segment.bytes
      kqueue configs alter topics orders --append cleanup.policy=compact
      kqueue configs alter brokers --default --add log.retention.ms=86400000
      kqueue configs alter broker-loggers 1 --add kqueue.log=DEBUG

    A change takes effect at once and is kept across restarts, except levels of loggers. A topic's
    value comes from the topic, else from its broker, from the defaults of all brokers, from the
    broker's start (its file or command line), or from kqueue. `kqueue settings` explains them.
    """


@configs.command()
@click.argument("entity_type", type=click.Choice(ENTITY_TYPES), metavar="TYPE")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=_complete_names)
@click.option("--default", "defaults", is_flag=True, help="Of brokers: the defaults of all brokers.")
@click.option(
    "-s",
    "--setting",
    "wanted",
    multiple=True,
    metavar="SETTING",
    shell_complete=_complete_settings,
    help="Only this setting; may be repeated.",
)
@click.option("--all", "everything", is_flag=True, help="Also settings with their default, or the broker's value.")
@output_option
@bootstrap_option
def describe(
    entity_type: str,
    names: tuple[str, ...],
    defaults: bool,
    wanted: tuple[str, ...],
    everything: bool,
    as_json: bool,
    bootstrap: str,
) -> None:
    """Show settings, where each value comes from, and whether it can change at run time.

    Settings that are set on the topic, group or subscription itself are shown; of a broker those
    that are set at run time, in its file or on its command line. --all shows the others too.

    TYPE is topics, brokers, broker-loggers, groups or client-metrics. Without a NAME the command
    shows all of them. The name of a broker, and of its loggers, is its id.

    \b
      kqueue configs describe topics orders
      kqueue configs describe topics orders --all
      kqueue configs describe brokers 1 -s log.retention.ms
      kqueue configs describe brokers --default
      kqueue configs describe broker-loggers 1
      kqueue configs describe groups

    SOURCE is `topic`, `broker`, `all brokers` (changed at run time), `broker's start` (its file or
    command line) or `default`. JSON has Kafka's names of the sources, all values that would count
    without the first, and the explanation of each setting.
    """
    _check_ids(entity_type, names)
    with own_client(bootstrap) as client, _words_of_options(entity_type, bootstrap, names):
        kind = _kind(entity_type)
        resources = _resources(client, kind, entity_type, names, defaults)
        described = client.configs(kind, resources, wanted or None)
        unknown = [setting for setting in wanted if all(setting not in rows for rows in described.values())]
        if unknown and described:
            name = next(iter(described))
            raise _no_setting(entity_type, unknown[0], _known_settings(client, entity_type, name))
    shows_all = everything or bool(wanted) or entity_type == "broker-loggers"
    not_own = ("DEFAULT_CONFIG",) if entity_type == "brokers" else ("DEFAULT_CONFIG", *BROKER_SOURCES)
    shown = {
        name: [row for row in rows.values() if shows_all or row.source not in not_own]
        for name, rows in described.items()
    }
    if as_json:
        print_json([_as_dict(entity_type, name, rows) for name, rows in shown.items()])
    else:
        _print(entity_type, shown, everything=shows_all, value_width=None if wanted else VALUE_WIDTH)


@configs.command()
@click.argument("entity_type", type=click.Choice(ENTITY_TYPES), metavar="TYPE")
@click.argument("name", required=False, shell_complete=_complete_names)
@click.option("--default", "defaults", is_flag=True, help="Of brokers: the defaults of all brokers.")
@click.option(
    "--add",
    "added",
    multiple=True,
    metavar="SETTING=VALUE",
    shell_complete=_complete_settings,
    help="Set a setting; may be repeated.",
)
@click.option(
    "--delete",
    "deleted",
    multiple=True,
    metavar="SETTING",
    shell_complete=_complete_settings,
    help="Unset a setting; may be repeated.",
)
@click.option(
    "--append", "appended", multiple=True, metavar="SETTING=ITEM[,…]", help="Add items to a list; may be repeated."
)
@click.option(
    "--subtract",
    "subtracted",
    multiple=True,
    metavar="SETTING=ITEM[,…]",
    help="Remove items from a list; may be repeated.",
)
@click.option("--validate-only", is_flag=True, help="Only check the changes.")
@bootstrap_option
def alter(
    entity_type: str,
    name: str | None,
    defaults: bool,
    added: tuple[str, ...],
    deleted: tuple[str, ...],
    appended: tuple[str, ...],
    subtracted: tuple[str, ...],
    validate_only: bool,
    bootstrap: str,
) -> None:
    """Change settings of one topic, broker, group or subscription, or levels of loggers.

    All changes are made, or none. What is not named stays. A setting that is deleted has the value
    of the next source again: of all brokers, of the broker's start, or the default. One that is not
    set is reported as such, and is no error.

    \b
      kqueue configs alter topics orders --add retention.ms=3600000 --add segment.ms=600000
      kqueue configs alter topics orders --append cleanup.policy=compact
      kqueue configs alter brokers 1 --add log.cleaner.threads=2
      kqueue configs alter brokers --default --add message.max.bytes=2000000
      kqueue configs alter broker-loggers 1 --add root=DEBUG --delete kqueue.log
      kqueue configs alter groups billing --add consumer.session.timeout.ms=60000
      kqueue configs alter client-metrics slow --add interval.ms=10000 --add metrics='*'

    Levels of loggers are FATAL, ERROR, WARN, INFO, DEBUG and TRACE; `root` is above all loggers of
    the broker. They are lost at a restart.
    """
    if (name is None) != defaults:
        raise click.UsageError("name what to change: a NAME, or for brokers --default")
    if defaults and entity_type != "brokers":
        raise click.UsageError("only brokers have defaults: leave --default out")
    changes = _changes(added, deleted, appended, subtracted)
    if not changes:
        raise click.UsageError("nothing to change: give --add, --delete, --append or --subtract")
    _check_ids(entity_type, () if defaults else (name or "",))
    with own_client(bootstrap) as client, _words_of_options(entity_type, bootstrap, (name,) if name else ()):
        unset = _unset(client, entity_type, name or "", deleted)
        client.alter_configs(_kind(entity_type), name or "", changes, validate_only=validate_only)
        stored = [] if validate_only else [change.name for change in changes if change.name not in deleted]
        unknown = _unknown(client, entity_type, name or "", stored)
    settings = [change.name for change in changes if change.name not in unset]
    done = "The changes are valid" if validate_only else "Changed"
    if settings:
        click.echo(f"{done}: {_title(entity_type, name or '')}: {', '.join(settings)}.")
    for hint in unknown:
        click.echo(hint, err=True)
    if unset:
        click.echo(f"Nothing to delete: {_title(entity_type, name or '')}: {', '.join(unset)} was not set there.")


def _changes(
    added: Sequence[str], deleted: Sequence[str], appended: Sequence[str], subtracted: Sequence[str]
) -> list[ConfigChange]:
    from kqueue.client import ConfigChange, ConfigOperation

    changes = [ConfigChange(ConfigOperation.SET, *pair) for pair in parse_name_values(added, "--add")]
    changes += [ConfigChange(ConfigOperation.DELETE, name.strip()) for name in deleted]
    changes += [ConfigChange(ConfigOperation.APPEND, *pair) for pair in parse_name_values(appended, "--append")]
    changes += [ConfigChange(ConfigOperation.SUBTRACT, *pair) for pair in parse_name_values(subtracted, "--subtract")]
    return changes


def _unknown(client: Client, entity_type: str, name: str, settings: Sequence[str]) -> list[str]:
    """Return a sentence about each setting of brokers that was set and that no broker knows.

    Brokers store such names, for plugins, and describe them as read-only.
    """
    if entity_type != "brokers" or not settings:
        return []
    rows = client.configs(_kind(entity_type), [name], None)[name]
    unknown = [setting for setting in settings if setting in rows and rows[setting].is_read_only]
    if not unknown:
        return []
    known = set(rows)
    if not name:
        known |= client.configs(_kind(entity_type), [str(min(client.metadata([]).brokers))], None).popitem()[1].keys()
    known -= set(unknown)
    return [
        f"{setting} is stored and has no effect: the broker does not know it{did_you_mean(setting, known)}"
        for setting in unknown
    ]


def _known_settings(client: Client, entity_type: str, name: str) -> Iterable[str]:
    """Return the names of a resource's settings; "": the defaults of all brokers, of which only
    those that are set are described.
    """
    kind = _kind(entity_type)
    return client.configs(kind, [name or str(min(client.metadata([]).brokers))], None).popitem()[1]


def _no_setting(entity_type: str, setting: str, known: Iterable[str]) -> click.ClickException:
    return click.ClickException(
        f"no setting of {entity_type} is called {setting!r}{did_you_mean(setting, known)}; see `kqueue settings`"
    )


def _unset(client: Client, entity_type: str, name: str, deleted: Sequence[str]) -> list[str]:
    """Return those of the settings to delete that are not set on the resource itself.

    A broker accepts the deletion of any name, as Kafka's does; only unknown loggers are refused.

    Raises: ClickException: there is no setting of this name.
    """
    if not deleted or entity_type == "broker-loggers":
        return []
    kind = _kind(entity_type)
    rows = client.configs(kind, [name], None)[name]
    known = _known_settings(client, entity_type, name)
    names = [setting.strip() for setting in deleted]
    for setting in names:
        if setting not in known:
            raise _no_setting(entity_type, setting, known)
    own = OWN_SOURCES[entity_type] if name else "DYNAMIC_DEFAULT_BROKER_CONFIG"
    return [setting for setting in names if setting not in rows or rows[setting].source != own]


@contextlib.contextmanager
def _words_of_options(entity_type: str, bootstrap: str, names: Sequence[str]) -> Iterator[None]:
    """Turn a broker's refusal into what the user typed: options for the names of operations."""
    from kqueue.client.errors import BrokerRefused

    try:
        yield
    except BrokerRefused as error:
        words = _OPERATION.sub(lambda match: OPTIONS[match[0]], error.broker_message or str(error))
        if entity_type == "topics" and error.code_name == "UNKNOWN_TOPIC_OR_PARTITION":
            missing = [name for name in names if similar_topic(bootstrap, name)] if names else []
            words += similar_topic(bootstrap, missing[0]) if missing else "; `kqueue topics list` shows all topics"
        remedy = remedy_of(error.code_name)
        if remedy:
            words = f"{words.rstrip('.')}: {remedy}"
        raise click.ClickException(words) from None


def _check_ids(entity_type: str, names: Sequence[str]) -> None:
    """Raise BadParameter if the name of a broker is not an id."""
    wrong = [name for name in names if entity_type in OF_BROKERS and not name.isdecimal()]
    if wrong:
        raise click.BadParameter(
            f"{wrong[0]!r} is no broker's id; `kqueue cluster info` shows the brokers", param_hint="NAME"
        )


def _kind(entity_type: str) -> ResourceType:
    from kqueue.client import ResourceType

    kinds = dict(
        zip(
            ENTITY_TYPES,
            (
                ResourceType.TOPIC,
                ResourceType.BROKER,
                ResourceType.BROKER_LOGGER,
                ResourceType.GROUP,
                ResourceType.CLIENT_METRICS,
            ),
            strict=True,
        )
    )
    return kinds[entity_type]


def _resources(client: Client, kind: ResourceType, entity_type: str, names: Sequence[str], defaults: bool) -> list[str]:
    if defaults:
        if entity_type != "brokers" or names:
            raise click.UsageError("--default is for brokers, without a NAME")
        return [""]
    if names:
        return list(names)
    if entity_type == "topics":
        return sorted(client.metadata(None).topics)
    if entity_type in OF_BROKERS:
        ids = [str(id) for id in sorted(client.metadata([]).brokers)]
        return ids if entity_type == "broker-loggers" else ["", *ids]
    return client.config_resources(kind)


def _title(entity_type: str, name: str) -> str:
    if not name:
        return "all brokers"
    return {"broker-loggers": "loggers of broker", "client-metrics": "client metrics"}.get(
        entity_type, entity_type.removesuffix("s")
    ) + f" {one_line(name)}"


def _print(entity_type: str, shown: dict[str, list[SettingRow]], *, everything: bool, value_width: int | None) -> None:
    if not shown:
        click.echo(f"No {entity_type} have settings.")
    for number, (name, rows) in enumerate(shown.items()):
        if number:
            click.echo()
        title = _title(entity_type, name)
        hint = "" if everything or not name else " (--all shows all in force)"
        if not rows:
            click.echo(f"{title}: nothing is set{hint}")
            continue
        click.echo(f"{title}: {counted(len(rows), 'setting')}{hint}")
        cells = [
            (row.name, _value_text(row, value_width), SOURCE_WORDS.get(row.source, row.source), _change_text(row))
            for row in rows
        ]
        click.echo(columns(("SETTING", "VALUE", "SOURCE", "CHANGES"), cells))


def _value_text(row: SettingRow, width: int | None) -> str:
    if row.value is None:
        return "(hidden)" if row.is_sensitive else "(unset)"
    return row.value if width is None or len(row.value) <= width else f"{row.value[: width - 1]}…"


def _change_text(row: SettingRow) -> str:
    return "at a restart" if row.is_read_only else "at run time"


def _as_dict(entity_type: str, name: str, rows: list[SettingRow]) -> dict[str, Any]:
    return {
        "type": entity_type,
        "name": name or None,
        "settings": [
            {
                "name": row.name,
                "value": row.value,
                "source": row.source,
                "read_only": row.is_read_only,
                "sensitive": row.is_sensitive,
                "synonyms": [synonym._asdict() for synonym in row.synonyms],
                "documentation": row.documentation,
            }
            for row in rows
        ],
    }
