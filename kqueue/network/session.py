"""One connection: requests begin in the order in which they arrive, and answers are sent in that
order.

A request begins when all before it are answered, as in Kafka, so it sees all that they changed. One
exception: a Produce that follows only unanswered Produces begins at once, so that a pipeline of
them shares one flush. "Answered" means that the response is known, not that it is sent. A request
that may not begin yet stays in the receive buffer, and the socket is not read meanwhile.

Requests begin in turns (`server.turns`): a connection that has more to do than fits into one queues
for the next. All connections of a server receive into one buffer, because one is read at a time; a
connection that is idle owns none. A handler gets a view of the request that it may write into, and
that is gone when it returns.
"""

from __future__ import annotations

import logging
import math
import select
import socket
from collections import deque

from kqueue.api.request_context import RequestContext
from kqueue.base.errors import KqueueError
from kqueue.base.settings import KiB
from kqueue.network.connections import ConnectionRegistry
from kqueue.network.fair_scheduler import UNKNOWN_TURN_S
from kqueue.network.memory_budgets import OWED_PART, MemoryHolding, ThroughputMeter, unread_bytes
from kqueue.network.receive_buffer import HELD_BYTES_MAX, ReceiveBuffer
from kqueue.network.responses import Chunks, DeferredResponse
from kqueue.network.send_queue import SendQueue, memory_bytes

PRODUCE = b"\0\0"
"""The first two bytes of a Produce request: its API key."""
_EMPTY = memoryview(b"")
READY_BYTES = 64 * KiB
"""A sender with so much unread is waiting for the broker, not the other way around."""
DECODED_FACTOR = 4
"""A request that waits is taken to hold so many times its size, once it is decoded. Produce
requests keep little while they wait.
"""


class Session:
    """A client's connection, from accept to close. `address` is its host and port, for people;
    `client_host` is as Kafka writes it.
    """

    __slots__ = (
        "_answers",
        "_answers_bytes",
        "_blocked",
        "_closed",
        "_crowded",
        "_heard_bytes",
        "_heard_ms",
        "_heard_seen",
        "_held",
        "_hub",
        "_intake",
        "_overlapping",
        "_owed_bytes",
        "_owed_bytes_max",
        "_parked_bytes",
        "_pump",
        "_queued",
        "_reader_meter",
        "_reading",
        "_sender_meter",
        "_sent_ms",
        "_sent_seen",
        "_silent",
        "_socket",
        "_stopping",
        "_stuck_ms",
        "address",
        "call",
        "client_host",
        "host",
        "listener",
        "served_s",
        "turn_s",
    )

    def __init__(self, hub: ConnectionRegistry, sock: socket.socket, host: str, port: int, listener: str) -> None:
        self._hub = hub
        self._socket = sock
        self.host = host
        self.address = f"{host}:{port}"
        self.client_host = f"/{host}"
        self.listener = listener
        self.call: RequestContext | None = None
        self._pump = SendQueue(sock, hub.loop, hub.jobs, failed=self._lost, drained=self._resume)
        self._intake = ReceiveBuffer(hub.received, hub.buffers, hub.budget, self, hub.bounds.request_bytes)
        self._answers: deque[Chunks | DeferredResponse] = deque()
        self._answers_bytes = 0
        self._owed_bytes_max = hub.bounds.response_bytes // 2
        self._closed = self._stopping = self._crowded = self._held = self._silent = False
        self._blocked = False  # see _block
        self._stuck_ms = 0.0  # since when it is blocked, or a request that counts as memory waits
        self._owed_bytes = 0  # as it is counted in the budget of all
        self._parked_bytes = 0  # of a decoded request that waits
        self._sender_meter: ThroughputMeter | None = None
        self._reader_meter: ThroughputMeter | None = None
        self._queued = False  # in the queue of `FairScheduler`
        self.served_s, self.turn_s = 0.0, UNKNOWN_TURN_S
        self._overlapping = False  # all unanswered requests are Produces
        self._heard_bytes = self._heard_seen = self._sent_seen = 0
        self._heard_ms = self._sent_ms = hub.clock.monotonic_ms()
        self._reading = True
        hub.loop.add_reader(sock, self._readable)
        hub.add(self)

    @property
    def quiet(self) -> bool:
        """No request is under way and every answer was sent."""
        return not self._answers and self._pump.idle

    @property
    def owes_answers(self) -> bool:
        """Whether there are answers that the client did not take yet."""
        return not (self._pump.idle or self._silent)

    @property
    def held_regions(self) -> int:
        """Parts of log files that the client did not take yet; see `SendQueue`."""
        return self._pump.held_regions

    @property
    def taken_since_sweep(self) -> int:
        """Bytes of answers that the client took since the last sweep."""
        return self._pump.sent_bytes - self._sent_seen

    # --- requests come in

    def _readable(self) -> None:
        intake = self._intake
        if intake.is_large and not self._hub.budget.may_go_on(self):
            self._crowded = True
            self._pause()
            return
        try:
            count = self._socket.recv_into(intake.room())
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lost(error.strerror or str(error))
            return
        if not count:
            self._ended()
            return
        self._heard_bytes += count
        turns = self._hub.turns
        until = turns.begin(self)
        intake.add(count)
        self._take_in(until)
        turns.end(self)

    def turn(self) -> None:
        """Go on with what has come: the next requests, for as long as a turn lasts."""
        self._queued = False
        if self._closed:
            return
        turns = self._hub.turns
        until = turns.begin(self)
        took_all = False
        if not self._busy:
            self._intake.again()
            took_all = self._take_in(until)
        else:
            self._pump.flush()
        turns.end(self)
        if not took_all:
            self._resume()
        elif not (self._reading or self._crowded or self._busy):
            self._read_on()

    def _take_in(self, until: float) -> bool:
        """Start the requests that are whole, as long as the client is not owed too many answers;
        then send what is answered.

        Returns whether it started all that were.
        """
        intake, now = self._intake, self._hub.turns.now
        frame: memoryview | None = _EMPTY
        try:
            while not self._busy:
                frame = intake.next()
                if frame is None:
                    break
                if now() >= until:
                    intake.put_back(frame)
                    self._queue()
                    break
                if self._answers and not (self._overlapping and frame[:2] == PRODUCE):
                    intake.put_back(frame)
                    self._block()
                    break
                self._start(frame)
            else:
                self._pause()
            intake.keep()
            if self._answers and not self._overlapping and intake.in_request:
                self._block()
        except KqueueError as error:
            self.cut_off(str(error))
        except OSError as error:
            self.cut_off(f"there is no memory for its request: {error}")
        except Exception as error:
            self.cut_off("its request met an error that nobody expected", error)
        self._pump.flush()
        self._count_owed()
        return frame is None

    def _count_owed(self) -> None:
        owed = self._pump.queued_bytes + self._answers_bytes
        if owed != self._owed_bytes:
            by, self._owed_bytes = owed - self._owed_bytes, owed
            self._hub.answers.change(by)

    def _start(self, frame: memoryview) -> None:
        answer = self._hub.start(frame, self)
        if answer is None:
            return
        if isinstance(answer, DeferredResponse):
            self._overlapping = answer.overlaps and (self._overlapping or not self._answers)
            self._answers.append(answer)
            self._hub.waiting_requests += 1
            if not answer.overlaps and len(frame) > HELD_BYTES_MAX:
                self._parked_bytes = len(frame) * DECODED_FACTOR
                self._stuck_ms = self._hub.clock.monotonic_ms()
                self._hub.budget.take(self._parked_bytes)
        elif self._answers:
            self._answers.append(answer)
            self._hub.waiting_requests += 1
            self._answers_bytes += memory_bytes(answer)
        else:
            self._pump.push(answer)

    def _queue(self) -> None:
        """Have another turn, and read no more before."""
        self._pause()
        if not self._queued:
            self._queued = True
            self._hub.turns.add(self)

    def _block(self) -> None:
        """The next request has come, in part or whole, and may not begin before all others are
        answered.
        """
        self._blocked = True
        if not self._parked_bytes:
            self._stuck_ms = self._hub.clock.monotonic_ms()
        self._pause()

    @property
    def _busy(self) -> bool:
        if self._answers:
            if self._blocked:
                return True
            bounds = self._hub.bounds
            if len(self._answers) >= bounds.requests or self._hub.waiting_requests >= bounds.requests_of_all:
                return True
        owed = self._pump.queued_bytes + self._answers_bytes
        owes_much = owed > self._owed_bytes_max or self._pump.backlogged or owed * OWED_PART >= self._hub.answers.free
        return owes_much or self._queued or self._held or self._silent or self._stopping or self._closed

    # --- answers go out

    def answered(self) -> None:
        """The answer of a request that waited is there; whatever it held up may go too, with the
        next `flush`.
        """
        answers = self._answers
        while answers and not self._closed:
            first = answers[0]
            if isinstance(first, DeferredResponse):
                if first.chunks is None:
                    break
                chunks = first.chunks
                if self._parked_bytes and not first.overlaps:
                    self._unpark()
            else:
                chunks = first
                self._answers_bytes -= memory_bytes(chunks)
            answers.popleft()
            self._hub.waiting_requests -= 1
            self._push(chunks)
        self._hub.will_send(self)

    def _unpark(self) -> None:
        parked, self._parked_bytes = self._parked_bytes, 0
        if parked:
            self._hub.budget.release(parked)

    def flush(self) -> None:
        """Send what is answered, and read on if that made room."""
        self._pump.flush()
        self._resume()

    def _push(self, chunks: Chunks) -> None:
        if self._pump.queued_bytes > self._hub.bounds.response_bytes:
            self.cut_off(
                f"it does not read its answers: {self._pump.queued_bytes} bytes wait (kqueue.queued.max.response.bytes)"
            )
            return
        self._pump.push(chunks)

    # --- reading, or not

    def _pause(self) -> None:
        if self._reading:
            self._reading = False
            self._hub.loop.remove_reader(self._socket)

    def _resume(self) -> None:
        """Read on after a pause, if nothing prevents it; requests that had come already begin
        first, in a turn.
        """
        self._count_owed()
        if self._reading or self._crowded:
            return
        if self._busy:
            if not (self._owed_bytes or self._closed) and self._hub.answers.denies(0):
                self._hub.answers.wait(self)
            return
        self._blocked = False
        if self._intake.in_request:
            self._queue()
        else:
            self._read_on()

    def _read_on(self) -> None:
        self._reading = True
        self._hub.loop.add_reader(self._socket, self._readable)

    def go_on(self) -> None:
        """There is room for requests or answers again (see `RequestBudget`, `ResponseBudget`)."""
        self._crowded = False
        self._resume()

    def hold(self) -> None:
        """Start no more requests before `let_go`; answers go out as before."""
        self._held = True

    def let_go(self) -> None:
        """Go on after `hold`."""
        self._held = False
        self._resume()

    def silence(self) -> None:
        """Neither read nor send before `speak`, as if nothing came through. Nothing is closed
        meanwhile, but by `close` and `cut_off`.
        """
        if not self._closed:
            self._silent = True
            self._pause()
            self._pump.hold()

    def speak(self) -> None:
        """Go on after `silence`."""
        if self._silent and not self._closed:
            self._silent = False
            self._pump.let_go()
            self._resume()

    def stop_reading(self) -> None:
        """Start no more requests."""
        self._stopping = True
        self._pause()

    def expire(self) -> None:
        """Answer what waits with a deadline as if it had come."""
        for answer in list(self._answers):
            if isinstance(answer, DeferredResponse):
                answer.expire()

    # --- the end

    def check(self, now_ms: float) -> None:
        """One look in each sweep: is the client idle, too slow to send, or too slow to read? And
        may a paused one go on?
        """
        self._measure(now_ms)
        self._resume()
        if self._blocked and self._answers and peer_has_closed(self._socket):
            self.expire()  # else a long wait would keep the session of a client that is gone
        in_request = self._intake.in_request
        heard = self._heard_bytes - self._heard_seen
        if (
            heard or not self._reading or not (in_request or self.quiet)
        ):  # silence counts only while it is the client's turn
            self._heard_seen, self._heard_ms = self._heard_bytes, now_ms
        if self._pump.sent_bytes != self._sent_seen or not self._pump.waits_for_room:
            self._sent_seen, self._sent_ms = self._pump.sent_bytes, now_ms
        silent_ms = now_ms - self._heard_ms
        bounds = self._hub.bounds
        if now_ms - self._sent_ms >= bounds.slow_reader_ms:
            self.cut_off(
                f"it took no byte of its answers for {bounds.slow_reader_ms} ms (kqueue.slow.reader.timeout.ms)"
            )
        elif in_request and self._reading:
            if silent_ms >= bounds.slow_sender_ms:
                self.cut_off(
                    f"it stopped in the middle of a request for {bounds.slow_sender_ms} ms (kqueue.slow.sender.timeout.ms)"
                )
        elif bounds.idle_ms is not None and silent_ms >= bounds.idle_ms:
            self.cut_off(f"it was idle for {bounds.idle_ms} ms (connections.max.idle.ms)", level=logging.INFO)

    def _measure(self, now_ms: float) -> None:
        if self._intake.missing_bytes:
            heard_bytes = self._heard_bytes + unread_bytes(self._socket)
            if self._sender_meter is None:
                self._sender_meter = ThroughputMeter(heard_bytes, now_ms)
            self._sender_meter.sample(heard_bytes, now_ms)
        else:
            self._sender_meter = None
        if self._owed_bytes and not self._silent:
            self._pump.try_again()
            if self._reader_meter is None:
                self._reader_meter = ThroughputMeter(self._pump.sent_bytes, now_ms)
            self._reader_meter.sample(self._pump.sent_bytes, now_ms)
        else:
            self._reader_meter = None

    def request_holding(self) -> MemoryHolding | None:
        """What it holds of the memory for requests; None: nothing, or it is not to blame, or that
        is not known yet.
        """
        held = self._intake.counted_bytes + self._parked_bytes
        stuck_ms = self._hub.clock.monotonic_ms() - self._stuck_ms
        if self._answers and (self._blocked or self._parked_bytes) and stuck_ms > self._hub.bounds.slow_holder_ms:
            return MemoryHolding(held, 0, 0, math.inf)  # its own request waits, and keeps this memory
        if self._sender_meter is None or (not self._reading and unread_bytes(self._socket) >= READY_BYTES):
            return None
        return self._sender_meter.holding(held, self._intake.missing_bytes)

    def answer_holding(self) -> MemoryHolding | None:
        """What it holds of the memory for answers; None: nothing, or its rate is not known yet."""
        return None if self._reader_meter is None else self._reader_meter.holding(self._owed_bytes, self._owed_bytes)

    def cut_off(self, reason: str, error: BaseException | None = None, *, level: int = logging.WARNING) -> None:
        """Say why, send what was answered before, and close. With an `error` the line shows where
        it happened.
        """
        if self._closed:
            return
        level = logging.ERROR if error is not None else level
        self._hub.client_log.say(
            level, self.address, "closed the connection of %s: %s", self.address, reason, error=error
        )
        self._stopping = True
        self._pump.flush()
        self.close()

    def close(self) -> None:
        """Close now; requests under way are forgotten, what they have done stays done. Twice is
        harmless.
        """
        if self._closed:
            return
        self._closed = True
        self._pause()
        for answer in self._answers:
            if isinstance(answer, DeferredResponse):
                answer.cancel()
        self._hub.waiting_requests -= len(self._answers)
        self._answers.clear()
        self._answers_bytes = 0
        self._pump.close()
        self._intake.close()
        self._unpark()
        self._count_owed()
        self._hub.answers.forget(self)
        self._socket.close()
        self._hub.remove(self)

    def abandon(self) -> None:
        """Close the descriptor alone; see `Server.abandon`."""
        self._socket.close()

    def _ended(self) -> None:
        """The client closed its side."""
        if self._intake.in_request:
            self._lost("it ended in the middle of a request")
        else:
            self.close()

    def _lost(self, reason: str) -> None:
        if not self._stopping:
            self._hub.client_log.say(logging.INFO, self.address, "lost the connection of %s: %s", self.address, reason)
        self.close()


def peer_has_closed(sock: socket.socket) -> bool:
    """Whether the peer sends no more, without reading; False where the system can't say."""
    if not hasattr(select, "POLLRDHUP"):
        return False
    poll = select.poll()
    poll.register(sock, select.POLLRDHUP)
    return bool(poll.poll(0))
