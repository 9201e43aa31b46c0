from __future__ import annotations

import pytest
from jinja2 import UndefinedError

from kqueue.console.templating import Templates, exact, number, path_segment, size, when


@pytest.fixture
def write() -> object:
    environment = Templates()._environment

    def write(template: str, **data: object) -> str:
        return environment.from_string(template).render(data)

    return write


def test_markup_and_control_characters_in_names_are_escaped(write) -> None:
    assert write("<b>{{ name }}</b>", name="<script>\x1b\u202e'\"") == ("<b>&lt;script&gt;\\x1b\\u202e&#39;&#34;</b>")


def test_the_value_of_a_field_is_sent_back_unchanged(write) -> None:
    assert write('value="{{ name|exact }}"', name='a"\u202e') == 'value="a&#34;\u202e"'
    assert exact("a&b") == "a&amp;b"


def test_a_name_is_one_segment_of_a_path() -> None:
    assert path_segment("a/b?c#d e") == "a%2Fb%3Fc%23d%20e"
    assert path_segment("..") == "%2E%2E"


def test_a_name_that_a_template_does_not_have_is_an_error(write) -> None:
    with pytest.raises(UndefinedError):
        write("{{ missing }}")


def test_numbers_sizes_and_times_are_written_for_people() -> None:
    assert (number(1234567), number(None), number(1234.56)) == ("1,234,567", "–", "1,234.6")
    assert (size(1_500), size(None)) == ("1.5 kB", "–")
    assert (when(0), when(-1), when(None)) == ("1970-01-01 00:00:00", "–", "–")
    assert when(2**63 - 1) == f"{2**63 - 1} ms"
