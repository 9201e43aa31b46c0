"""A broker's store in a process of its own, for tests that pause it. Run as a program:

    python -m compat_tests.zookeeper.paused_broker ADDRESS NODE_ID TIMEOUT_MS [--unaware]

It registers, campaigns, writes one line, and then commits once for each line that it reads; it
writes what became of it. `--unaware`: it does not count the time since `keep_alive`, so that only
ZooKeeper knows what was lost.
"""

from __future__ import annotations

import sys
import threading
import time

from kqueue.base.errors import KqueueError
from kqueue.metadata.store import Session
from kqueue.metadata.zookeeper import ZookeeperStore
from kqueue.metadata.zookeeper_session import ZookeeperSession


def _keep_alive(session: Session) -> None:
    try:
        while not session.lost:
            session.keep_alive()
            time.sleep(session.timeout_ms / 3000)
    except KqueueError:
        pass


def main(address: str, node_id: str, timeout_ms: str, *flags: str) -> None:
    """Run until the end of the input."""
    if "--unaware" in flags:
        ZookeeperSession._remaining_s = lambda self: 1e6  # type: ignore[method-assign]
    store = ZookeeperStore(address)
    session = store.register(int(node_id), f"process-{node_id}", int(timeout_ms))
    term = store.campaign(session)
    threading.Thread(target=_keep_alive, args=(session,), daemon=True).start()
    print("registered", session.epoch, term.epoch if term else None, flush=True)
    for line in sys.stdin:
        outcomes = []
        for by in (term, session):
            try:
                store.commit({}, {f"/by-{node_id}": line.encode()}, [], by=by)
                outcomes.append("committed")
            except KqueueError as error:
                outcomes.append(type(error).__name__)
        print(*outcomes, session.lost, flush=True)
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
