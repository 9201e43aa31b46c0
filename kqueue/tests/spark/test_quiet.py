from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import subprocess, sys
from pathlib import Path
from kqueue.spark.quiet import errors_to

with errors_to(Path(sys.argv[1])):
    child = subprocess.Popen([sys.executable, "-c", "import sys; input(); print('from the child', file=sys.stderr)"], stdin=subprocess.PIPE)
    print("from within", file=sys.stderr)
print("from after", file=sys.stderr)
child.communicate(b"\\n")
"""


def test_what_is_started_within_speaks_to_the_file_to_its_end(tmp_path: Path) -> None:
    file = tmp_path / "said"
    file.write_text("before\n")
    done = subprocess.run([sys.executable, "-c", PROGRAM, file], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == "from after\n"
    assert file.read_text() == "before\nfrom within\nfrom the child\n"
