"""Completion of arguments in a shell: topics, groups and settings.

A completion must be quick and silent: the broker has `TIMEOUT_MS`, and a failure completes nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from kqueue.client import Client

TIMEOUT_MS = 1500
Complete = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]


def complete_topics(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the topics that begin so; internal ones only after an underscore."""
    names = _asked(ctx, lambda client: client.metadata().topics)
    return _items((name for name in names if incomplete.startswith("_") or not name.startswith("__")), incomplete)


def complete_groups(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the groups that begin so."""
    return _items(_asked(ctx, lambda client: client.groups()), incomplete)


def complete_settings(scope: str | None = None, *, suffix: str = "") -> Complete:
    """Return the completion of settings' names.

    Args:
        scope: "broker", "topic" or "group"; None: of all.
        suffix: follows each name, such as "=".
    """

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        with contextlib.suppress(Exception):
            from kqueue.config.catalog import CATALOG
            from kqueue.config.kafka_settings import all_settings

            rows = [row for row in all_settings(CATALOG) if scope in (None, row.scope) and row.effect.value == "does"]
            return _items((row.name + suffix for row in rows), incomplete)
        return []

    return complete


def _asked(ctx: click.Context, ask: Callable[[Client], Iterable[str]]) -> list[str]:
    """Return what a broker answers, the one that the options before name; [] after a failure."""
    with contextlib.suppress(Exception):
        from kqueue.cli.client_access import DEFAULT_BOOTSTRAP, client_access
        from kqueue.client import Client

        bootstrap = ctx.params.get("bootstrap") or DEFAULT_BOOTSTRAP
        with (
            ctx.scope(cleanup=False),
            Client(
                bootstrap,
                client_id="kqueue-completion",
                security=client_access().security,
                connect_timeout_ms=TIMEOUT_MS,
                timeout_ms=TIMEOUT_MS,
            ) as client,
        ):
            return sorted(ask(client))
    return []


def _items(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in dict.fromkeys(names) if name.startswith(incomplete)]
