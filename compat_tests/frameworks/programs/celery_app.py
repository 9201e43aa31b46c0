"""A Celery application whose tasks travel over Kafka: kombu's transport `confluentkafka`.

`python celery_app.py BOOTSTRAP send COUNT` or `python celery_app.py BOOTSTRAP work`; a task that is
done adds a line to the file `done` in the working folder. Task `HELD` and later ones wait until
there is a file `go`.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from celery import Celery

HELD = 10
POLL_S = 0.05
bootstrap = sys.argv.pop(1)
app = Celery("mails", broker=f"confluentkafka://{bootstrap}")
app.conf.update(
    task_ignore_result=True,
    task_acks_late=True,
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
    broker_transport_options={
        "wait_time_seconds": 1,
        "kafka_consumer_config": {"session.timeout.ms": 6000, "heartbeat.interval.ms": 1000},
    },
)


@app.task(name="mails.send")
def send(number: int) -> None:
    while number >= HELD and not Path("go").exists():
        time.sleep(POLL_S)
    with Path("done").open("a") as done:
        done.write(f"{number}\n")


def main(role: str, count: str = "0") -> None:
    if role == "send":
        for number in range(int(count)):
            send.delay(number)
    else:
        app.worker_main(["worker", "--pool=solo", "--loglevel=info", "--without-mingle", "--without-gossip"])


if __name__ == "__main__":
    main(*sys.argv[1:])
