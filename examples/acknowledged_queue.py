"""A point-to-point queue with acknowledgement: each job is done by one worker.

Workers share a consumer group. A worker acknowledges a job by committing its offset after the work.
The jobs of a worker that dies before the commit go to other workers.

Run it with: python examples/acknowledged_queue.py        (needs kqueue with the extra `cli`)
"""

from __future__ import annotations

import threading

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

import kqueue

TOPIC = "jobs"
GROUP = "workers"
JOBS = 40


class Worker(threading.Thread):
    """Takes jobs until all are done; with `dies_after`, it stops in the middle of a job."""

    def __init__(self, name: str, bootstrap: str, done: dict[str, list[str]], dies_after: int | None = None) -> None:
        super().__init__(name=name)
        self.bootstrap = bootstrap
        self.done = done
        self.dies_after = dies_after
        self.at_work = threading.Event()

    def run(self) -> None:
        consumer = KafkaConsumer(
            TOPIC,
            bootstrap_servers=self.bootstrap,
            group_id=GROUP,
            auto_offset_reset="earliest",
            enable_auto_commit=False,  # the worker commits after its work
            max_poll_records=1,
        )
        handled = 0
        while len(self.done) < JOBS:
            for messages in consumer.poll(timeout_ms=1000).values():
                for message in messages:
                    self.at_work.set()
                    if handled == self.dies_after:
                        print(f"{self.name} dies while it has {message.value.decode()}")
                        consumer.close(autocommit=False)
                        return
                    handled += 1
                    self.done.setdefault(message.value.decode(), []).append(self.name)
                    consumer.commit()  # acknowledged: nobody gets this job again
        consumer.close(autocommit=False)
        print(f"{self.name} did {handled} jobs")


def main() -> None:
    done: dict[str, list[str]] = {}
    with kqueue.Broker() as broker:
        with KafkaAdminClient(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics({TOPIC: {"num_partitions": 4}}, wait_for_metadata=True)

        producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
        for number in range(JOBS):
            producer.send(TOPIC, f"job {number}".encode(), key=str(number).encode())
        producer.close()

        workers = [Worker("worker 1", broker.bootstrap, done, dies_after=3), Worker("worker 2", broker.bootstrap, done)]
        for worker in workers:
            worker.start()
            worker.at_work.wait()  # so that each gets some of the jobs
        for worker in workers:
            worker.join()

    twice = sum(len(by) - 1 for by in done.values())
    print(f"{len(done)} of {JOBS} jobs are done, {twice} of them more than once")


if __name__ == "__main__":
    main()
