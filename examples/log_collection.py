"""Log collection: an agent sends the lines of a program's log, and a consumer processes them.

The program writes a file, which is rotated meanwhile. The agent (`kqueue collect`) is killed half
way and started again, and continues at its position. The consumer counts errors by service; no line
is missing, and none counts twice.

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
    """Start the agent as a process; it keeps its position beside the log."""
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
    """Append lines, as the program does."""
    with log.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)


def count_errors(consumer: KafkaConsumer, lines: int, errors: Counter[str]) -> int:
    """Process `lines` lines; return how many arrived before the consumer's timeout."""
    arrived = 0
    while arrived < lines:
        record = next(consumer, None)
        if record is None:
            break
        arrived += 1
        service, level = record.value.decode().split()[1:3]
        errors[service] += level == "ERROR"
    return arrived


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
        arrived = count_errors(consumer, third // 2, errors)

        agent.kill()
        agent.wait()
        print(f"the agent was killed after the consumer had seen {arrived} lines")
        write_log(log, lines[third : 2 * third])
        log.rename(log.with_name("app.log.1"))
        write_log(log, lines[2 * third :])
        print("meanwhile the log was rotated and has grown")

        agent = start_agent(broker.bootstrap, log)
        arrived += count_errors(consumer, LINES - arrived, errors)
        agent.terminate()
        agent.wait()
        twice = len(broker.topics[TOPIC].records()) - LINES
        consumer.close()

    print(
        f"{arrived} of {LINES} lines arrived, {twice} of them twice; "
        f"errors: {', '.join(f'{name} {errors[name]}' for name in SERVICES)}"
    )
    if arrived != LINES or twice or errors != expected:
        raise SystemExit("lines are missing, or arrived twice")


if __name__ == "__main__":
    main()
