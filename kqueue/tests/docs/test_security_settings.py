"""The table of settings of `docs/security.md` is that of the catalog.

`python -m kqueue.tests.docs.test_security_settings` writes it.
"""

from __future__ import annotations

import re
from pathlib import Path

from kqueue.base.settings import Prefix, Setting, UpdateMode, format_value
from kqueue.config.catalog import CATALOG
from kqueue.security import config as security_config
from kqueue.security import tls_config, token_config
from kqueue.security.sasl import config as sasl_config

PAGE = Path(__file__).parents[3] / "docs" / "security.md"
SECURITY = PAGE.parents[1] / "kqueue" / "security"
BEGIN, END = "<!-- table of the settings -->\n", "<!-- end of the table -->\n"
SHOWN_MAX = 60
"""Characters of a default that the table shows; a longer one is in `kqueue settings`."""
TABLES = {
    "config.py": security_config.SETTINGS,
    "token_config.py": token_config.SETTINGS,
    "tls_config.py": tls_config.SETTINGS,
    "sasl/config.py": sasl_config.SETTINGS,
}
"""The settings of security, by the module that declares them."""
NAMES = re.compile(
    r"listeners|.*\.inter\.broker\..*|inter\.broker\..*|listener\.security\.protocol\.map|kqueue\.allow\.insecure"
    r"|kqueue\.metrics\.otlp\.headers|kqueue\.(zookeeper|postgres)\.(user|password)|zookeeper\.ssl\..*|max\.connections.*|max\.connection\.creation\.rate"
)
"""And those of other modules with these names."""
WHERE = {Prefix.NONE: "", Prefix.LISTENER: "L", Prefix.MECHANISM: "L, M"}
WHEN = {UpdateMode.READ_ONLY: "", UpdateMode.PER_BROKER: "yes", UpdateMode.CLUSTER_WIDE: "yes"}


def settings() -> list[Setting]:
    """Return the settings of security, by name."""
    own = {row.name for rows in TABLES.values() for row in rows}
    return [row for name, row in sorted(CATALOG.broker.items()) if name in own or NAMES.fullmatch(name)]


def default_of(row: Setting) -> str:
    value = format_value(row.default)
    if not value:
        return ""
    return f"`{value}`" if len(value) <= SHOWN_MAX else "see `kqueue settings`"


def line(row: Setting) -> str:
    doc = row.doc.replace("|", "\\|").replace("<", "\\<")
    return f"| `{row.name}` | {default_of(row)} | {WHERE[row.prefix]} | {WHEN[row.dynamic]} | {doc} |\n"


def table() -> str:
    """Return the table, one row for each setting."""
    head = "| setting | default | for | at run time | |\n|---|---|---|---|---|\n"
    return head + "".join(map(line, settings()))


def test_the_table_is_that_of_the_catalog() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text.partition(BEGIN)[2].partition(END)[0] == table(), (
        f"run python -m {__name__}: settings were added or changed"
    )


def test_no_setting_of_security_is_left_out() -> None:
    declare = {path for path in SECURITY.rglob("*.py") if re.search(r"^SETTINGS\b", path.read_text(), re.MULTILINE)}
    assert {path.relative_to(SECURITY).as_posix() for path in declare} == set(TABLES)
    listed = {row.name for row in settings()}
    assert listed >= {row.name for rows in TABLES.values() for row in rows}
    missing = {row.name for row in CATALOG.broker.values() if row.is_secret} - listed
    assert not missing, "each setting with a secret is one of security"
    kin = re.compile(
        r"(^|\.)(ssl|sasl|acl|quota|security|principal|authentication|authorizer|delegation|tls|users?)(\.|$)"
    )
    assert not {name for name in CATALOG.broker if kin.search(name)} - listed


def test_settings_that_the_page_names_exist() -> None:
    """Also those with a prefix, and the families written as ``ssl.keystore.*``."""
    text = PAGE.read_text(encoding="utf-8").partition(BEGIN)[0]
    families = "authorizer|connections?|inter|kqueue|quota|sasl|ssl|super"
    named = set(re.findall(rf"`((?:{families})\.[a-z0-9.]+[a-z](?:\.\*)?)`", text))
    of_others = {"ssl.truststore.location", "sasl.jaas.config", "kqueue.audit"}  # clients, and a logger
    unknown = {
        name
        for name in named - of_others
        if not any(other == name or (name.endswith("*") and other.startswith(name[:-1])) for other in CATALOG.broker)
    }
    assert named
    assert not unknown


if __name__ == "__main__":
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(before + BEGIN + table() + END + rest.partition(END)[2], encoding="utf-8")
