"""That they connect brokers is shown by tests of clusters, such as those of `kqueue.Cluster`."""

from __future__ import annotations

import subprocess
import sys


def test_a_single_broker_imports_nothing_of_it() -> None:
    code = (
        "import sys, kqueue\n"
        "with kqueue.Broker(): pass\n"
        "print([name for name in sys.modules if name.startswith(('kqueue.interbroker', 'kqueue.network.peer', "
        "'kqueue.network.cluster_peers', 'kqueue.broker.member', 'kqueue.metadata.zookeeper'))])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
