"""Changes of the settings of one resource: what an alter request asks for, and what it results in.

Source: KIP-133 (replace all), KIP-339 (incremental changes).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kqueue.base.config_resources import ConfigChange, ConfigOperation
from kqueue.base.errors import InvalidConfig, InvalidRequest, SettingError
from kqueue.base.settings import Setting, SettingType, format_value

RESOURCE_BYTES_MAX = 256 * 1024
"""Size of all names and values of one resource, in characters; a metadata value is below 1 MiB."""

VALUE_BYTES_MAX = 2**15 - 1
"""Size of one value as text in UTF-8: DescribeConfigs can't carry a longer string.

An alter request can't either, but what APPEND makes grows with each one.
"""


def check_names(names: Sequence[str]) -> None:
    """Raise InvalidRequest if a setting is named twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InvalidRequest(
                f"Error due to duplicate config keys: setting {name!r} is twice in the request, expected each once"
            )
        seen.add(name)


def not_a_list(name: str, operation: ConfigOperation) -> str:
    """Return Kafka's words about APPEND and SUBTRACT of a setting that is no list."""
    return f"Can't {operation.name} to key {name} because its type is not LIST."


def changed_values(
    find: Callable[[str], Setting],
    own: Mapping[str, Any],
    in_force: Callable[[Setting], Any],
    changes: Sequence[ConfigChange],
    not_a_list: Callable[[str, ConfigOperation], str] = not_a_list,
) -> dict[str, Any]:
    """Return the values of a resource after `changes`, not checked yet.

    Args:
        find: returns the row of a name; raises SettingError.
        own: the resource's parsed values.
        in_force: returns the value to which APPEND adds, and from which SUBTRACT removes, where
            the resource has none of its own.
        not_a_list: returns Kafka's words about APPEND and SUBTRACT of a setting that is no list.
    Raises: InvalidRequest: a setting twice, or without a value. InvalidConfig: APPEND or SUBTRACT
        of a setting that is not a list. What `find` raises.
    """
    check_names([change.name for change in changes])
    values = dict(own)
    for operation, name, value in changes:
        if operation is ConfigOperation.DELETE:
            values.pop(name, None)  # also an unknown one, as in Kafka: so leftovers can be removed
            continue
        if value is None:
            raise InvalidRequest(
                f"Null value not supported for : {name}: {operation.name} expects a value, found null; use DELETE to "
                "unset it"
            )
        if operation is ConfigOperation.SET:
            values[name] = value
        else:
            values[name] = _changed_list(
                _list_row(find, name, operation, not_a_list), operation, value, values.get(name), in_force
            )
    return values


def _list_row(
    find: Callable[[str], Setting],
    name: str,
    operation: ConfigOperation,
    not_a_list: Callable[[str, ConfigOperation], str],
) -> Setting:
    """Return the row of a list. Raises InvalidConfig: it is none, or `find` raises SettingError."""
    try:
        row = find(name)
    except SettingError as error:
        raise InvalidConfig(f"{not_a_list(name, operation)} {error}") from None
    # of a broker, Kafka looks first whether the setting can change
    if row.kind is not SettingType.LIST and not row.is_read_only:
        raise InvalidConfig(
            f"{not_a_list(name, operation)} {operation.name} is for lists, and {name} has one value ({row.kind.name}): "
            "use SET"
        )
    return row


def _changed_list(
    row: Setting, operation: ConfigOperation, value: str, own: Any, in_force: Callable[[Setting], Any]
) -> list[str]:
    if row.is_read_only:
        return [value]  # which is refused when the result is checked
    items = list((own if own is not None else in_force(row)) or [])
    named = [item.strip() for item in value.split(",") if item.strip()]
    if operation is ConfigOperation.SUBTRACT:
        removed = set(named)
        return [item for item in items if item not in removed]
    present = set(items)
    return items + [item for item in dict.fromkeys(named) if item not in present]


def replaced_values(values: Sequence[tuple[str, str | None]]) -> dict[str, Any]:
    """Return the values of a resource after all were replaced. Raises: InvalidRequest."""
    check_names([name for name, _ in values])
    unset = [name for name, value in values if value is None]
    if unset:
        raise InvalidRequest(
            f"Null value not supported for : {','.join(unset)}: {unset[0]}: expected a value, found null; leave the "
            "setting out to unset it"
        )
    return dict(values)


def check_size(what: str, values: Mapping[str, Any]) -> None:
    """Raise InvalidConfig if a value exceeds VALUE_BYTES_MAX, or all of one resource
    RESOURCE_BYTES_MAX.
    """
    texts = {name: format_value(value) or "" for name, value in values.items()}
    for name, text in texts.items():
        length = len(text.encode())
        if length > VALUE_BYTES_MAX:
            raise InvalidConfig(f"{what}: the value of {name} has {length} bytes, expected at most {VALUE_BYTES_MAX}")
    size = sum(len(name) + len(text) for name, text in texts.items())
    if size > RESOURCE_BYTES_MAX:
        raise InvalidConfig(
            f"{what}: settings of one resource hold at most {RESOURCE_BYTES_MAX} characters, not {size}"
        )
