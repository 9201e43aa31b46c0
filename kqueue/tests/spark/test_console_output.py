from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from kqueue.spark.console_output import py4j_silenced

PROGRAM = """
import subprocess, sys
from pathlib import Path
from kqueue.spark.console_output import stderr_to

with stderr_to(Path(sys.argv[1])):
    code = "import sys; input(); print('from the child', file=sys.stderr)"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    print("from within", file=sys.stderr)
print("from after", file=sys.stderr)
child.communicate(b"\\n")
"""


def test_child_process_writes_to_the_file_to_its_end(tmp_path: Path) -> None:
    file = tmp_path / "said"
    file.write_text("before\n")
    done = subprocess.run([sys.executable, "-c", PROGRAM, file], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == "from after\n"
    assert file.read_text() == "before\nfrom within\nfrom the child\n"


LOGGED = """
import logging
from kqueue.spark.console_output import py4j_silenced

def call():
    logging.getLogger("py4j.clientserver").error("from the bridge")
    logging.error("from the root")

with py4j_silenced():
    call()
logging.getLogger("py4j").warning("from after")
logging.basicConfig()
with py4j_silenced():
    logging.error("as set up")
"""


def test_py4j_logs_are_shown_where_logging_was_set_up() -> None:
    done = subprocess.run([sys.executable, "-c", LOGGED], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == "from after\nERROR:root:as set up\n"


def test_logging_is_afterwards_as_before() -> None:
    root = logging.getLogger()
    before = list(root.handlers)
    with pytest.raises(RuntimeError), py4j_silenced():
        raise RuntimeError
    assert root.handlers == before
