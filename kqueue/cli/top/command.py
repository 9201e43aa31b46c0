"""`kqueue top`: the options, and which of screen and single picture it is."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from kqueue.cli.connect import bootstrap_option, own_client, require
from kqueue.cli.output import new_console, output_option, print_json, table_console

if TYPE_CHECKING:
    from kqueue.cli.top.feed import Feed
    from kqueue.cli.top.metrics_reader import MetricsReader


@click.command()
@click.option(
    "--interval", "interval_s", type=click.FloatRange(min=0.2), default=2.0, show_default=True, metavar="SECONDS",
    help="Time between two readings.",
)  # fmt: skip
@click.option("--once", is_flag=True, help="Print one picture, of two readings, and end.")
@click.option(
    "--metrics", "urls", multiple=True, metavar="URL",
    help="The kqueue.metrics.listener of a broker of kqueue, for its slow requests; may be repeated.",
)  # fmt: skip
@click.option("--ca", metavar="FILE", help="Trust the certificates of this PEM file, for metrics by https.")
@output_option
@bootstrap_option
def top(interval_s: float, once: bool, urls: tuple[str, ...], ca: str | None, as_json: bool, bootstrap: str) -> None:
    """Watch a cluster: brokers, topics by rate, groups by lag, slow requests and disks.

    \b
      kqueue top
      kqueue top --interval 5 --metrics http://127.0.0.1:9404
      kqueue top --once
      kqueue top --once -o json

    It works with any broker of Kafka's protocol; only slow requests need a broker of kqueue with
    metrics. Keys: 1 to 5 choose a section, < and > the column that it is sorted by, r reverses, /
    filters, space pauses, ? helps, q quits. Where input or output is no terminal, it prints one
    picture, as with --once.
    """
    from kqueue.cli.top.keyboard import has_keyboard

    require("rich", "cli")
    is_live = has_keyboard() and not once
    if as_json and is_live:
        raise click.UsageError("-o json prints one picture: add --once")
    metrics = _metrics_reader(urls, ca, is_live=is_live)
    from kqueue.admin.snapshot import SLOW_READINGS_EVERY_MS, SnapshotReader
    from kqueue.base.clock import SystemClock
    from kqueue.cli.top.feed import Feed

    with own_client(bootstrap) as client:
        clock = SystemClock()
        reader = SnapshotReader(client, clock, slow_every_ms=SLOW_READINGS_EVERY_MS if is_live else 0)
        feed = Feed(bootstrap, reader, metrics, interval_s, clock)
        if is_live:
            _run_live(feed, interval_s)
        else:
            _print_once(feed, interval_s, as_json=as_json)


def _metrics_reader(urls: tuple[str, ...], ca: str | None, *, is_live: bool) -> MetricsReader | None:
    """Return the reader of these addresses. Raises BadParameter: one is no URL."""
    if not urls:
        return None
    for url in urls:
        if urlsplit(url).scheme not in ("http", "https"):
            raise click.BadParameter(f"{url!r}: write http://HOST:PORT or https://HOST:PORT", param_hint="--metrics")
    require("prometheus_client", "metrics")
    from kqueue.cli.health import trusting
    from kqueue.cli.top.metrics_reader import EVERY_S, MetricsReader

    return MetricsReader(urls, trusting(ca), every_s=EVERY_S if is_live else 0)


def _print_once(feed: Feed, interval_s: float, *, as_json: bool) -> None:
    from rich.text import Text

    from kqueue.cli.top.report import as_dict
    from kqueue.cli.top.screen import whole

    feed.read()
    feed.wait(interval_s)
    picture = feed.read()
    if picture.error is not None or picture.snapshot is None:
        raise click.ClickException(picture.error or "no broker answers")
    if as_json:
        print_json(as_dict(picture))
        return
    console = table_console()
    console.print(Text("\n").join(whole(picture, console.width)), soft_wrap=True)


def _run_live(feed: Feed, interval_s: float) -> None:
    from kqueue.cli.signals import stop_on_signal
    from kqueue.cli.top.keyboard import keyboard
    from kqueue.cli.top.live import run

    stopped = threading.Event()
    with stop_on_signal(stopped.set):
        feed.start()
        try:
            with keyboard() as keys:
                run(feed, keys, new_console(), interval_s, stopped.is_set)
        finally:
            feed.stop()
