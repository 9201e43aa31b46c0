from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import gc, resource
from kqueue.workers.process_setup import GC_THRESHOLDS, raise_open_files_limit, tune_garbage_collector
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(100, hard), hard))
raise_open_files_limit()
assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
tune_garbage_collector()
assert gc.get_freeze_count() > 1000
assert gc.get_threshold() == GC_THRESHOLDS
"""


def test_process_setup_raises_the_file_limit_and_tunes_the_collector() -> None:
    subprocess.run([sys.executable, "-c", SCRIPT], check=True, timeout=60)
