"""A broker inside this process, a producer and a consumer; no server, no files.

Run it with: python examples/quickstart.py        (needs kqueue with the extra `cli`)
"""

from __future__ import annotations

from kafka import KafkaConsumer, KafkaProducer

import kqueue


def main() -> None:
    with kqueue.Broker() as broker:
        print(f"a broker listens on {broker.bootstrap}")

        producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
        for number in range(1, 6):
            producer.send("greetings", f"hello {number}".encode())
        producer.close()  # waits until all five are confirmed

        consumer = KafkaConsumer(
            "greetings",
            bootstrap_servers=broker.bootstrap,
            auto_offset_reset="earliest",
            consumer_timeout_ms=2000,
        )
        for message in consumer:
            print(f"offset {message.offset}: {message.value.decode()}")
            if message.offset == 4:
                break
        consumer.close()


if __name__ == "__main__":
    main()
