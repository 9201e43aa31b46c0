"""Asynchronous work: a registration answers as soon as the user is saved, and mails are sent later.

A registration saves the user and sends two mails; each of the three takes 50 ms. The program
measures how long a user waits for the answer: with one step after another, with both mails in
parallel, and with a queue, where two mail services consume the registrations.

Run it with: python examples/registration_mail.py        (needs kqueue with the extra `cli`)
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from kafka import KafkaConsumer, KafkaProducer

import kqueue

TOPIC = "registrations"
USERS = [f"user {number}" for number in range(10)]
MAILS = ("welcome", "address check")
STEP_S = 0.05


def save(user: str) -> None:
    time.sleep(STEP_S)


def send_mail(mail: str, user: str) -> None:
    time.sleep(STEP_S)


def one_after_another(user: str) -> None:
    save(user)
    for mail in MAILS:
        send_mail(mail, user)


def in_parallel(user: str) -> None:
    save(user)
    with ThreadPoolExecutor() as pool:
        for mail in MAILS:
            pool.submit(send_mail, mail, user)


def through_a_queue(producer: KafkaProducer, user: str) -> None:
    save(user)
    producer.send(TOPIC, user.encode()).get(timeout=10)  # the queue has it: no mail is lost from here on


def mail_service(bootstrap: str, mail: str, sent: list[str]) -> None:
    """Send this mail to each user who registers; each mail has a group, and so gets every user."""
    consumer = KafkaConsumer(TOPIC, bootstrap_servers=bootstrap, group_id=mail, auto_offset_reset="earliest")
    while len(sent) < len(USERS):
        message = next(consumer)
        send_mail(mail, message.value.decode())
        sent.append(message.value.decode())
    consumer.close()


def wait_ms(register: Callable[[str], None]) -> float:
    """Return the median time, in ms, that a user waits for the answer."""
    waits = []
    for user in USERS:
        began = time.perf_counter()
        register(user)
        waits.append(time.perf_counter() - began)
    return statistics.median(waits) * 1000


def main() -> None:
    print(f"one after another: a user waits {wait_ms(one_after_another):.0f} ms")
    print(f"in parallel:       a user waits {wait_ms(in_parallel):.0f} ms")

    sent: dict[str, list[str]] = {mail: [] for mail in MAILS}
    with kqueue.Broker() as broker:
        broker.create_topic(TOPIC)
        services = [
            threading.Thread(target=mail_service, args=(broker.bootstrap, mail, users), daemon=True)
            for mail, users in sent.items()
        ]
        for service in services:
            service.start()
        with KafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
            producer.partitions_for(TOPIC)  # connects before the first user comes
            print(f"through a queue:   a user waits {wait_ms(lambda user: through_a_queue(producer, user)):.0f} ms")
        for service in services:
            service.join()

    for mail, users in sent.items():
        print(f"{mail}: sent to {len(users)} of {len(USERS)} users")
        if users != USERS:
            raise SystemExit(f"{mail} was not sent once to each user")


if __name__ == "__main__":
    main()
