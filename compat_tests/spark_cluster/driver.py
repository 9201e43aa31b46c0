"""Runs two queries of one topic on a cluster: ``python driver.py BOOTSTRAP FOLDER MASTER ARCHIVE``.

The process is a driver that can be killed; started again, its queries go on from their checkpoints.
It uses the installed kqueue, whose location it prints. A query that fails is started again, as a
supervisor would, and its error goes to standard error.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT))  # last: kqueue is that of the environment

import kqueue  # noqa: E402
from compat_tests.spark import queries  # noqa: E402
from compat_tests.spark_cluster.standalone import SETTINGS  # noqa: E402
from kqueue.spark.session import session  # noqa: E402

NAMES = ("once", "whole")
"""With delivery exactly-once, and transactional."""


def main(bootstrap: str, folder: Path, master: str, archive: str) -> None:
    print(kqueue.__file__, flush=True)
    settings = {"spark.archives": f"{archive}#environment", "spark.local.dir": folder / "scratch"}
    spark = session("killed", master, settings=SETTINGS | settings)
    running = {name: queries.start(spark, bootstrap, folder, name) for name in NAMES}
    while True:
        for name, query in running.items():
            if not query.isActive:
                print(f"{name} starts again after {query.exception()}", file=sys.stderr, flush=True)
                running[name] = queries.start(spark, bootstrap, folder, name)
        time.sleep(0.2)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4])
