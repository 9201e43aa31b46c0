from __future__ import annotations

import pytest

from kqueue.base.errors import SettingError
from kqueue.security.principal_mapping import NAME_LENGTH_MAX, PrincipalMapper
from kqueue.tests.steps import steps
from kqueue.tests.tables import for_each

DUKE = "CN=Duke,OU=ServiceUsers,O=Org,C=US"


@for_each(
    "rules, name, user",
    [
        ("DEFAULT", DUKE, DUKE),
        ("", DUKE, DUKE),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", DUKE, "Duke"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L", DUKE, "duke"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/U", DUKE, "DUKE"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "CN=Duke,OU=Others", None),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/, DEFAULT", "CN=Duke,OU=Others", "CN=Duke,OU=Others"),
        ("RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/L", "cn=Ann,ou=Sme,dc=My,dc=Com", "ann@sme"),
        ("RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L , DEFAULT", DUKE, "duke"),
        ("RULE:^CN=(.*?),O=a\\/b$/$1/", "CN=x,O=a/b", "x"),
        ("RULE:CN=(.*)/$1$2/", "CN=x", "x$2"),
        ("RULE:CN=(.*)/$10/", "CN=x", "x0"),
        ("RULE:CN=(.*)/\\$1/", "CN=x", "$1"),
        ("RULE:CN=(a)|CN=(b)/[$1$2]/", "CN=b", "[b]"),
        ("RULE:a/b/", "aa", None),
        ("RULE:a/b/,, RULE:b/c/,", "b", "c"),
        (",DEFAULT", "b", "b"),
        # letters and digits are ASCII's, a line's end is no character of `.`, and an empty match is
        # followed by one of the next character: as in Java
        ("RULE:(\\w+).*/$1/", "größe", "gr"),
        ("RULE:(?i)(Ä).*/$1/", "äb", None),
        ("RULE:CN=.*/x/", "CN=a\u2028b", None),
        ("RULE:CN=[.]*/x/", "CN=..", "x"),
        ("RULE:(.*?)/<$1>/", "ab", "<>a<>b<>"),
        ("RULE:.*?([^,]*)/$1@x/", "O=a,O=b", "O=a@x@x,O=b@x@x"),
    ],
)
def test_first_matching_rule_names_the_user(rules: str, name: str, user: str | None) -> None:
    assert PrincipalMapper(rules).name_of(name) == user


@for_each(
    "rules",
    [
        "RULE",
        "RULE:a",
        "RULE:a/b",
        "RULE:a/b/X",
        "DEFAULT DEFAULT",
        ",",
        "RULE:(/x/",
        "RULE:(?=a)/x/",
        "RULE:(a)/$/",
        "RULE:(a)/$b/",
        "RULE:a/$1/",
        "default",
    ],
)
def test_malformed_rules_are_refused(rules: str) -> None:
    with pytest.raises(SettingError, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalMapper(rules)


def test_a_name_that_would_take_exponential_time_matches_no_rule_at_once() -> None:
    mapper = PrincipalMapper("RULE:^CN=(a+)+,O=b$/$1/")
    assert mapper.name_of("x" * (NAME_LENGTH_MAX + 1)) is None
    names = ["CN=" + "a" * length for length in (500, 1000)]
    assert [mapper.name_of(name) for name in names] == [None, None]
    once, twice = (steps(lambda name=name: mapper.name_of(name)) for name in names)  # type: ignore[misc]
    assert twice < 2.1 * once
