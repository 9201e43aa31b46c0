"""Options of the commands for tiers, and their errors."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from kqueue.base.errors import ExtraNeeded, KqueueError
from kqueue.cli.formats import time_text

if TYPE_CHECKING:
    from kqueue.tier.stores.contract import TierStore

F = TypeVar("F", bound=Callable[..., Any])
YEAR_9999_MS = 253_402_300_799_999
USAGE = 2


class NoTier(click.ClickException):
    """There is no tier, or no such topic; exits as after a usage error."""

    exit_code = USAGE


def complete_tier_topics(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the topics of the tier that begin so; a failure completes nothing."""
    with contextlib.suppress(Exception):
        from kqueue.log_tools.tier_urls import open_tier_store
        from kqueue.tier.catalog import topic_names

        names = topic_names(open_tier_store(ctx.params["url"]))
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]
    return []


def url_argument(command: F) -> F:
    """Add the argument `url`."""
    # Eager, so that the completion of topics has it.
    return click.argument("url", metavar="URL", is_eager=True)(command)


def topic_option(command: F) -> F:
    """Add ``-t/--topic``, as the argument `topics`."""
    return click.option(
        "-t",
        "--topic",
        "topics",
        multiple=True,
        metavar="NAME",
        shell_complete=complete_tier_topics,
        help="This topic alone; may be repeated.",
    )(command)


@contextlib.contextmanager
def opened_tier(url: str, topics: tuple[str, ...] = ()) -> Iterator[TierStore]:
    """Yield the store of a tier, for reads and writes.

    Raises: NoTier: nothing is there, or a topic is missing. ClickException: what goes wrong in the
        `with` block.
    """
    from kqueue.base.names import did_you_mean
    from kqueue.log_tools.tier_urls import open_tier_store
    from kqueue.tier.catalog import read_tier_record, topic_names

    with tier_errors():
        store = open_tier_store(url)
        try:
            names = topic_names(store)
            if not names and read_tier_record(store) is None:
                raise NoTier(f"{store.location} is no tier: it has neither kqueue-tier.json nor topics.")
            for topic in topics:
                if topic not in names:
                    raise NoTier(f"{store.location} has no topic {topic}{did_you_mean(topic, names)}.")
            yield store
        finally:
            store.close()


@contextlib.contextmanager
def tier_errors() -> Iterator[None]:
    """Raise errors of stores and folders as those of commands."""
    from kqueue.log_tools.errors import NotALogFolder

    try:
        yield
    except NotALogFolder as error:
        raise NoTier(f"{error}.") from None
    except ExtraNeeded as error:
        raise click.ClickException(str(error)) from None
    except (KqueueError, OSError) as error:
        raise click.ClickException(f"{str(error).rstrip('.')}.") from None


def moment(time_ms: int | None) -> str:
    """Return a time in ms for people, whatever an object says; ``-``: none."""
    if time_ms is not None and time_ms > YEAR_9999_MS:
        return str(time_ms)
    return time_text(time_ms)
