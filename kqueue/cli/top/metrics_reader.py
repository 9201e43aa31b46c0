"""The requests of brokers of kqueue, read from their `/metrics`."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.error import HTTPError
from urllib.request import Request

from kqueue.admin.request_times import ApiTimes, RequestHistory, parse_counters
from kqueue.base.errors import SettingError
from kqueue.config.http_client import HttpOptions, read_url
from kqueue.config.tls_client import TlsClientSettings

ANSWER_BYTES_MAX = 32 * 1024 * 1024
TIMEOUT_S = 1.5
EVERY_S = 5.0


class MetricsReader:
    """Reads the metrics of some brokers every 5 seconds: a scrape costs a broker more than a call.

    Args:
        urls: such as ``http://127.0.0.1:9404``.
        tls: for https; None: as the system does.

    Thread: one at a time.
    """

    def __init__(self, urls: Sequence[str], tls: TlsClientSettings | None = None, *, every_s: float = EVERY_S) -> None:
        self._histories = {url: RequestHistory() for url in urls}
        self._options = HttpOptions(ANSWER_BYTES_MAX, TIMEOUT_S, tls)
        self._every_s = every_s
        self._due_s = 0.0
        self._rows: list[ApiTimes] = []
        self._problems: list[str] = []

    def read(self, now_s: float) -> tuple[list[ApiTimes], list[str]]:
        """Return the requests of all brokers, and a sentence for each that did not tell them.

        Args:
            now_s: of a monotonic clock.
        """
        if now_s >= self._due_s:
            self._due_s = now_s + self._every_s
            self._rows, self._problems = [], []
            for url, history in self._histories.items():
                try:
                    request = Request(f"{url.rstrip('/')}/metrics")
                    history.add(now_s, parse_counters(read_url(request, self._options).decode(errors="replace")))
                    self._rows += history.times()
                except (OSError, ValueError, SettingError) as error:
                    if isinstance(error, HTTPError):
                        error.close()
                    self._problems.append(f"no metrics from {url}: {error}")
        return self._rows, self._problems
