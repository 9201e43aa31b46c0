"""`kqueue health`: whether a broker serves, for scripts, containers and supervisors."""

from __future__ import annotations

from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request

import click

from kqueue.base.errors import SettingError
from kqueue.base.key_stores import StoreSettings
from kqueue.base.terminal import one_line
from kqueue.cli.output import output_option, print_json
from kqueue.config.http_client import HttpOptions, read_bounded, read_url
from kqueue.config.tls_client import TlsClientSettings

URL = "http://127.0.0.1:9404"
ANSWER_BYTES_MAX = 64 * 1024
NOT_READY = 503
IN_SYNC = "in_sync"
TLS_VERSIONS = ("TLSv1.2", "TLSv1.3")


@click.command()
@click.argument("url", default=URL)
@click.option(
    "--timeout", "timeout_s", type=click.FloatRange(min=0.1), default=5.0, show_default=True, metavar="SECONDS",
    help="How long to wait for an answer.",
)  # fmt: skip
@click.option("--in-sync", is_flag=True, help="Of a cluster: its replicas have to be in sync, too.")
@click.option("--ca", metavar="FILE", help="Trust the certificates of this PEM file, for https.")
@output_option
@click.pass_context
def health(ctx: click.Context, url: str, timeout_s: float, in_sync: bool, ca: str | None, as_json: bool) -> None:
    """Ask a broker whether it serves all it has, at its kqueue.metrics.listener.

    \b
      kqueue health
      kqueue health http://127.0.0.1:9405
      kqueue health --in-sync
      kqueue health https://broker.example.com:9404 --ca authority.pem

    Exit status 0: it is ready. 1: it is not, and each line says why; or it does not answer.
    """
    reasons = _ask(url, timeout_s, ca, in_sync=in_sync)
    if as_json:
        print_json({"ready": not reasons, "reasons": reasons})
    else:
        for line in reasons or ["ready"]:
            click.echo(one_line(line))
    ctx.exit(1 if reasons else 0)


def trusting(ca: str | None) -> TlsClientSettings | None:
    """Return settings that trust the certificates of this PEM file; None: those of the system."""
    if ca is None:
        return None
    trusted = StoreSettings("--ca", "PEM", ca)
    return TlsClientSettings(StoreSettings("", "PEM"), trusted, TLS_VERSIONS, (), check_host=True)


def _ask(url: str, timeout_s: float, ca: str | None, *, in_sync: bool) -> list[str]:
    """Return why the broker is not ready; empty: it is."""
    path = f"/readyz?{IN_SYNC}=true" if in_sync else "/readyz"
    if urlsplit(url).scheme not in ("http", "https"):
        raise click.BadParameter(f"{url!r}: write http://HOST:PORT or https://HOST:PORT", param_hint="URL")
    try:
        read_url(Request(url.rstrip("/") + path), HttpOptions(ANSWER_BYTES_MAX, timeout_s, trusting(ca)))
    except HTTPError as error:
        with error:
            if error.code != NOT_READY:
                return [f"{url} is no broker's: it answered {error.code} to /readyz"]
            return read_bounded(error, ANSWER_BYTES_MAX, float("inf")).decode(errors="replace").splitlines()
    except SettingError as error:
        raise click.BadParameter(str(error), param_hint="--ca") from None
    except (OSError, ValueError) as error:
        return [f"no answer from {url}: {error}. Does the broker run, with kqueue.metrics.listener?"]
    return []
