from __future__ import annotations

import logging
import sys

from kqueue.supervisor.logs import LabelledFormatter, OneLineFormatter
from kqueue.tests.tables import for_each


def test_each_line_of_a_traceback_has_the_label() -> None:
    try:
        raise ValueError("bad")
    except ValueError:
        record = logging.LogRecord("kqueue", logging.ERROR, __file__, 1, "it failed", (), sys.exc_info())
    first, *others = LabelledFormatter("worker 3").format(record).splitlines()
    assert first.endswith("ERROR   worker 3: it failed")
    assert others[-1] == "worker 3: ValueError: bad"
    assert all(line.startswith("worker 3: ") for line in others)


@for_each("formatter", [OneLineFormatter("%(message)s"), LabelledFormatter("worker 3")])
def test_a_name_in_a_message_begins_no_other_line(formatter: logging.Formatter) -> None:
    record = logging.LogRecord(
        "kqueue", logging.WARNING, __file__, 1, "group %s", ("a\n2026 ERROR\x1b[31m\u202e",), None
    )
    (line,) = formatter.format(record).splitlines()
    assert line.endswith(r"group a\n2026 ERROR\x1b[31m\u202e")
