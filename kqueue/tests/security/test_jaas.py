"""JAAS configurations."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.errors import SettingError
from kqueue.security.jaas import PLAIN_MODULE, parse_jaas
from kqueue.tests.tables import for_each


def test_users_are_options_of_the_login_module():
    text = f"""
        // who may connect
        {PLAIN_MODULE} required /* of
        all */ username=admin password='it\\'s' user_ann="a;=\\"b\\\\" user_bob=geheim ;
    """
    module = parse_jaas(text, "sasl.jaas.config")
    assert module.name == PLAIN_MODULE
    assert module.users == {"ann": 'a;="b\\', "bob": "geheim"}
    assert module.options["password"] == "it's"
    assert module.options["username"] == "admin"
    assert "geheim" not in repr(module)


@for_each(
    "text",
    [
        "",
        ";",
        "X required",
        'X user_ann="secret";',
        'X required user_ann="secret;',
        'X required user_ann "secret";',
        "X required user_ann=;",
        'X required user_ann="secret" user_ann="secret";',
        'X required user_ann="secret"; Y required;',
        'X maybe user_ann="secret";',
    ],
)
def test_wrong_text_is_refused_and_never_shown(text):
    with pytest.raises(SettingError, match=r"sasl\.jaas\.config") as error:
        parse_jaas(text, "sasl.jaas.config")
    assert "secret" not in str(error.value)


@given(st.dictionaries(st.from_regex(r"[a-z_]+", fullmatch=True), st.text(st.characters(exclude_characters="\n"))))
def test_quoted_values_are_read_as_they_were_written(options):
    written = " ".join(
        f'{key}="{value.replace(chr(92), chr(92) * 2).replace(chr(34), chr(92) + chr(34))}"'
        for key, value in options.items()
    )
    assert parse_jaas(f"X required {written};", "s").options == options


@given(st.text(st.sampled_from("ax=;\"'\\ /*\n"), max_size=30))
def test_any_text_is_parsed_or_refused(text):
    with contextlib.suppress(SettingError):
        parse_jaas(text, "s")
