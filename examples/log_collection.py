"""Log collection: an agent follows a program's log, sends what is added to it periodically, and a
consumer works on the lines.

The program knows nothing of queues: it writes a file, which is rotated under way. The agent
(`kqueue collect`) is killed in the middle and started again, and goes on where it stood. The
consumer counts what went wrong, by service; no line is missing and none counts twice.

Run it with: python examples/log_collection.py        (needs kqueue with the extra `cli`)
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from kafka import KafkaConsumer

import kqueue

TOPIC = "logs"
SERVICES = ("web", "billing", "mail")
LINES = 6000
SILENCE_MS = 20_000


def start_agent(bootstrap: str, log: Path) -> subprocess.Popen[bytes]:
    """The agent as a process of its own; it keeps its position beside the log."""
    options = [
        "--topic",
        TOPIC,
        "--from-beginning",
        "--interval",
        "0.1",
        "--state",
        str(log.with_suffix(".json")),
        "-b",
        bootstrap,
    ]
    return subprocess.Popen(
        [sys.executable, "-m", "kqueue.cli", "collect", str(log), *options], stderr=subprocess.DEVNULL
    )


def write_log(log: Path, lines: list[str]) -> None:
    """What the program does: nothing but writing lines."""
    with log.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)


def count_errors(consumer: KafkaConsumer, lines: int, errors: Counter[str]) -> int:
    """Work on so many lines; returns how many came before there was silence."""
    came = 0
    while came < lines:
        record = next(consumer, None)
        if record is None:
            break
        came += 1
        service, level = record.value.decode().split()[1:3]
        errors[service] += level == "ERROR"
    return came


def main() -> None:
    rng = random.Random(7)
    lines = [
        f"{number:06} {rng.choice(SERVICES)} {rng.choices(('INFO', 'ERROR'), (9, 1))[0]} something"
        for number in range(LINES)
    ]
    expected = Counter(line.split()[1] for line in lines if line.split()[2] == "ERROR")
    errors: Counter[str] = Counter()
    third = LINES // 3
    with tempfile.TemporaryDirectory() as folder, kqueue.Broker() as broker:
        broker.create_topic(TOPIC)
        log = Path(folder, "app.log")
        consumer = KafkaConsumer(
            TOPIC, bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=SILENCE_MS
        )
        agent = start_agent(broker.bootstrap, log)
        write_log(log, lines[:third])
        came = count_errors(consumer, third // 2, errors)

        agent.kill()
        agent.wait()
        print(f"the agent was killed after the consumer had seen {came} lines")
        write_log(log, lines[third : 2 * third])
        log.rename(log.with_name("app.log.1"))
        write_log(log, lines[2 * third :])
        print("meanwhile the log was rotated, and written on")

        agent = start_agent(broker.bootstrap, log)
        came += count_errors(consumer, LINES - came, errors)
        agent.terminate()
        agent.wait()
        twice = len(broker.topics[TOPIC].records()) - LINES
        consumer.close()

    print(
        f"{came} of {LINES} lines came, {twice} of them twice; errors: {', '.join(f'{name} {errors[name]}' for name in SERVICES)}"
    )
    if came != LINES or twice or errors != expected:
        raise SystemExit("lines are missing, or came twice")


if __name__ == "__main__":
    main()
