"""A number that a group may have of its own, within bounds that the broker's settings give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kqueue.base.config import Config
from kqueue.base.errors import InvalidConfig


class BoundedGroupSetting(NamedTuple):
    """A time in ms, or a count, that groups may have of their own: between `low` and `high`."""

    name: str
    default: int
    low: int
    high: int

    @classmethod
    def read(cls, name: str, config: Config) -> BoundedGroupSetting:
        """Return the setting with the values that the broker has for it."""
        return cls(name, *(config[row] for row in broker_names(name)))

    def of(self, own: Mapping[str, Any]) -> int:
        """Return the value of a group with these settings.

        One that was set before the broker's bounds became narrower is moved into them.
        """
        return min(max(int(own.get(self.name, self.default)), self.low), self.high)

    def check(self, own: Mapping[str, Any]) -> None:
        """Check the settings of a group. Raises: InvalidConfig: out of the bounds."""
        value = own.get(self.name)
        if value is not None and not self.low <= value <= self.high:
            raise InvalidConfig(
                f"{self.name} must be {self._bound_broken_by(value)}: {self.name} is from {self.low} to {self.high} "
                f"on this broker, not {value}"
            )

    def _bound_broken_by(self, value: int) -> str:
        """Return Kafka's words about a value out of bounds, with the broker's setting."""
        _, low, high = broker_names(self.name)
        return f"greater than or equal to {low}" if value < self.low else f"less than or equal to {high}"


def broker_names(name: str) -> tuple[str, str, str]:
    """Return the broker's settings with default, minimum and maximum of a setting of groups.

    Kafka's names follow a rule: the minimum of ``share.delivery.count.limit`` is
    ``group.share.min.delivery.count.limit``.
    """
    kind, _, rest = name.partition(".")
    bounded = rest.removeprefix("num.")
    return f"group.{name}", f"group.{kind}.min.{bounded}", f"group.{kind}.max.{bounded}"
