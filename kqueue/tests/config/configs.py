"""The configuration of a broker, read as `kqueue serve` and `kqueue.Broker` do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from kqueue.base.config import Config
from kqueue.config.properties import SourcedValue, make_config, read_values


def read_config(
    file: str | Path | None = None,
    environment: Mapping[str, str] | None = None,
    pairs: Iterable[str] = (),
    keywords: Mapping[str, object] | None = None,
) -> Config:
    """Return the configuration from all sources, in increasing precedence."""
    given = read_values(file, environment, pairs)
    given.update({name: SourcedValue(value, "the arguments") for name, value in (keywords or {}).items()})
    return make_config(given)
