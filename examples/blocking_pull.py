"""Pull by a blocking call: a consumer asks for messages when it has time for them.

The call waits for messages up to a timeout, and returns as soon as there are some. The consumer
says how many it takes at most, and where to continue: backwards to read again, forwards to skip.
asyncio_listener.py shows the other way: messages that are handled as they come.

Run it with: python examples/blocking_pull.py        (needs kqueue with the extra `cli`)
"""

from __future__ import annotations

import threading
import time

from kafka import KafkaConsumer, TopicPartition

import kqueue

TOPIC = "tasks"
PARTITION = TopicPartition(TOPIC, 0)


def pull(consumer: KafkaConsumer, timeout_ms: int) -> list[str]:
    """Block until there are messages, at most `timeout_ms`; print what came and when."""
    began = time.perf_counter()
    messages = consumer.poll(timeout_ms=timeout_ms).get(PARTITION, [])
    values = [message.value.decode() for message in messages]
    print(f"after {time.perf_counter() - began:.1f} s: {', '.join(values) or 'nothing'}")
    return values


def main() -> None:
    with kqueue.Broker() as broker:
        broker.create_topic(TOPIC)
        consumer = KafkaConsumer(
            bootstrap_servers=broker.bootstrap,
            max_poll_records=3,
            fetch_max_wait_ms=100,  # a seek waits for the request under way, which the broker holds so long
        )
        consumer.assign([PARTITION])
        consumer.seek_to_beginning()

        print("the queue is empty, and the consumer waits for half a second")
        pull(consumer, timeout_ms=500)

        print("it waits again, and a message comes meanwhile")
        threading.Timer(0.3, broker.topics[TOPIC].produce, ["task 0"]).start()
        pull(consumer, timeout_ms=5000)

        print("seven messages are there, of which it takes three at a time")
        broker.topics[TOPIC].produce_all(f"task {number}" for number in range(1, 8))
        taken = 0
        while taken < 7:
            taken += len(pull(consumer, timeout_ms=5000))

        print("it reads from task 2 again")
        consumer.seek(PARTITION, 2)
        pull(consumer, timeout_ms=5000)

        print("it skips to task 7")
        consumer.seek(PARTITION, 7)
        pull(consumer, timeout_ms=5000)
        consumer.close()


if __name__ == "__main__":
    main()
