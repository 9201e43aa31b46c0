from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading

import click
import pytest

from kqueue.cli import signals
from kqueue.tests.tables import for_each

INSIST = """
import signal, time
from kqueue.cli import signals
signals.INSIST_AFTER_S = 0
with signals.stop_on_signal(lambda: print("asked", flush=True)):
    signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGINT)
    print("still here")
"""


@for_each("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_asks_and_an_echo_of_it_is_ignored(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    asked = []
    ended = contextlib.nullcontext() if number == signal.SIGTERM else pytest.raises(click.exceptions.Exit, match="130")
    with ended, signals.stop_on_signal(lambda: asked.append(1)):
        signal.raise_signal(number)
        signal.raise_signal(number)
    assert asked == [1]
    assert signal.getsignal(number) is before


def test_later_signal_ends_the_process_at_once() -> None:
    result = subprocess.run([sys.executable, "-c", INSIST], capture_output=True, text=True, check=False)
    assert result.stdout == "asked\n"
    assert result.returncode == -signal.SIGINT


def test_off_the_main_thread_nothing_is_touched() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def work() -> None:
        with signals.stop_on_signal(lambda: None):
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]


INTERRUPTED = """
import signal
from kqueue.cli import signals
signals.INSIST_AFTER_S = 0
with signals.interrupt_on_signal():
    try:
        signal.raise_signal(signal.SIGINT)
    finally:
        print("ending", flush=True)
        signal.raise_signal(signal.SIGINT)
        print("still here")
"""


@for_each("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_interrupts_and_an_echo_of_it_does_not(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with signals.interrupt_on_signal() as take:
        signal.signal(number, lambda number, frame: None)  # what a library does
        take()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
        signal.raise_signal(number)
    assert signal.getsignal(number) is before


def test_an_interruption_can_be_insisted_on() -> None:
    result = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=False)
    assert result.stdout == "ending\n"
    assert result.returncode == -signal.SIGINT


def test_off_the_main_thread_nothing_is_interrupted() -> None:
    before = signal.getsignal(signal.SIGINT)

    def inside() -> None:
        with signals.interrupt_on_signal() as take:
            take()
            seen.append(signal.getsignal(signal.SIGINT))

    seen: list[object] = []
    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert seen == [before]
