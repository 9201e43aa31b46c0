"""Config providers: values of settings that are kept elsewhere (KIP-297, KIP-421, KIP-887).

    config.providers=env,file
    config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider
    config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
    config.providers.file.param.allowed.paths=/etc/kqueue
    ssl.keystore.password=${file:/etc/kqueue/secrets.properties:keystore}

A value that is missing is an error here. Kafka goes on with the text ``${...}`` as the value, which
would then be the password. Messages name the provider, the path and the key, never the value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from kqueue.base.errors import SettingError
from kqueue.base.names import did_you_mean

PROVIDERS = "config.providers"
PREFIX = f"{PROVIDERS}."
_PACKAGE = "org.apache.kafka.common.config.provider."
_REFERENCE = re.compile(r"\$\{(?P<provider>[^}]*?):(?:(?P<path>[^}]*?):)?(?P<key>[^}]*?)\}")
"""Source: Kafka ConfigTransformer.DEFAULT_PATTERN."""
VALUE_BYTES_MAX = 1024 * 1024


class _Provider(NamedTuple):
    name: str
    parameters: Mapping[str, str]
    environment: Mapping[str, str]
    parse: Callable[[str], Mapping[str, str]]

    def of_variable(self, path: str, key: str) -> str:
        """Return an environment variable. Raises SettingError."""
        if path:
            raise SettingError(f"the provider {self.name} has no paths: expected ${{{self.name}:VARIABLE}}")
        pattern = self.parameters.get("allowlist.pattern")
        try:
            is_allowed = pattern is None or re.fullmatch(pattern, key) is not None
        except re.error as error:
            raise SettingError(f"{self._parameter('allowlist.pattern')} is no regular expression: {error}") from None
        if not is_allowed:
            raise SettingError(f"{self._parameter('allowlist.pattern')} does not match the variable {key}")
        if key not in self.environment:
            raise SettingError(f"there is no environment variable {key}")
        return self.environment[key]

    def of_properties(self, path: str, key: str) -> str:
        """Return a value of a properties file. Raises SettingError."""
        values = self.parse(self._read(path))
        if key not in values:
            raise SettingError(f"{path} has no key {key!r}{did_you_mean(key, values)}")
        return values[key]

    def of_folder(self, path: str, key: str) -> str:
        """Return the content of the file `key` in a folder. Raises SettingError."""
        if not key or "/" in key or key in (".", ".."):
            raise SettingError(f"expected the name of a file in {path}, found {key!r}")
        return self._read(str(Path(path, key)))

    def _read(self, path: str) -> str:
        """Return the text of a file that may be read."""
        if not path or not Path(path).is_absolute():
            raise SettingError(f"expected ${{{self.name}:PATH:KEY}} with an absolute path, found {path!r}")
        self._check_allowed(path)
        try:
            with Path(path).open("rb") as file:
                raw = file.read(VALUE_BYTES_MAX + 1)
            if len(raw) > VALUE_BYTES_MAX:
                raise SettingError(f"{path} has more than {VALUE_BYTES_MAX} bytes")
            return raw.decode("utf-8-sig")
        except OSError as error:
            raise SettingError(f"{path} can't be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise SettingError(f"{path} is no text in UTF-8") from None

    def _check_allowed(self, path: str) -> None:
        allowed = self.parameters.get("allowed.paths", "")
        folders = [Path(each.strip()).resolve() for each in allowed.split(",") if each.strip()]
        resolved = Path(path).resolve()  # a link must not lead out of an allowed folder
        if folders and not any(resolved.is_relative_to(folder) for folder in folders):
            raise SettingError(f"{path} is not in {self._parameter('allowed.paths')}={allowed}")

    def _parameter(self, name: str) -> str:
        return f"{PREFIX}{self.name}.param.{name}"


class _Class(NamedTuple):
    read: Callable[[_Provider, str, str], str]
    parameter: str


_CLASSES: Mapping[str, _Class] = {
    f"{_PACKAGE}EnvVarConfigProvider": _Class(_Provider.of_variable, "allowlist.pattern"),
    f"{_PACKAGE}FileConfigProvider": _Class(_Provider.of_properties, "allowed.paths"),
    f"{_PACKAGE}DirectoryConfigProvider": _Class(_Provider.of_folder, "allowed.paths"),
}


class ConfigProviders:
    """The providers that settings name.

    Args:
        values: all settings, as given.
        environment: what EnvVarConfigProvider reads.
        parse: returns the values in the text of a properties file.
    Raises: SettingError: a provider has no class, one that kqueue does not have, or an unknown
        parameter.
    """

    def __init__(
        self,
        values: Mapping[str, object],
        environment: Mapping[str, str],
        parse: Callable[[str], Mapping[str, str]],
    ) -> None:
        self._providers: dict[str, Callable[[str, str], str]] = {}
        named = values.get(PROVIDERS) or ""
        names = named.split(",") if isinstance(named, str) else map(str, named if isinstance(named, list) else [])
        for name in filter(None, (each.strip() for each in names)):
            setting = f"{PREFIX}{name}.class"
            given = str(values.get(setting) or "").strip()
            if given not in _CLASSES:
                shown = f"{given!r}" if given else "nothing"
                raise SettingError(f"{setting}: expected one of {', '.join(_CLASSES)}, found {shown}")
            start = f"{PREFIX}{name}.param."
            parameters = {key.removeprefix(start): str(each) for key, each in values.items() if key.startswith(start)}
            for unknown in parameters.keys() - {_CLASSES[given].parameter}:  # it may be the bound, misspelt
                raise SettingError(f"{start}{unknown}: expected {start}{_CLASSES[given].parameter}")
            self._providers[name] = _bound(_CLASSES[given].read, _Provider(name, parameters, environment, parse))

    def __bool__(self) -> bool:
        return bool(self._providers)

    def resolve(self, text: str) -> str:
        """Return `text` with the values in place of the references ``${provider:path:key}``.

        Raises: SettingError: no such provider, path or key.
        """
        return _REFERENCE.sub(self._value, text)

    def _value(self, match: re.Match[str]) -> str:
        provider = self._providers.get(match["provider"])
        if provider is None:
            raise SettingError(
                f"{match[0]}: {PROVIDERS} names no {match['provider']!r} (it names {', '.join(self._providers)})"
            )
        try:
            return provider(match["path"] or "", match["key"])
        except SettingError as error:
            raise SettingError(f"{match[0]}: {error}") from None


def _bound(method: Callable[[_Provider, str, str], str], provider: _Provider) -> Callable[[str, str], str]:
    return lambda path, key: method(provider, path, key)
