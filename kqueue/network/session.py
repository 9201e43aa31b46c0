"""One client connection. Requests begin in the order in which they arrive, and responses are sent
in that order.

A request begins when the responses of all earlier ones are complete, as in Kafka, so it sees all
their changes. One exception: a Produce that follows only deferred Produces begins at once, so that
a pipeline of them shares one flush. "Complete" means that the response is known, not that it is
sent. A request that may not begin stays in the receive buffer, and the socket is not read
meanwhile.

Requests begin in time slices (`fair_scheduler`). A connection that has more to do than fits into
one queues for the next. All connections of a server receive into one shared buffer, since one is
read at a time; an idle connection owns no buffer. A handler gets a view of the request that it may
write into, and that is invalid after it returns.

Control enters from outside, always on the loop's thread: `_readable` and `run_slice` begin
requests, `response_ready` and then `flush` follow the end of a deferred one, `check` is called by
the sweep. Whatever pauses a connection is ended by one method, which calls `_continue_reading`;
`_is_busy` lists them.
"""

from __future__ import annotations

import math
from collections import deque
from functools import partial
from typing import Final

from kqueue.api.request_context import RequestContext
from kqueue.base import events
from kqueue.base.errors import KqueueError
from kqueue.base.log_event import LogEvent
from kqueue.base.settings import KiB
from kqueue.network.connections import ConnectionRegistry
from kqueue.network.contract import Accepted, Chunks, MemoryHolding, ResponseShaper, StreamSocket
from kqueue.network.eviction import ThroughputMeter, peer_has_closed, sampled, unread_bytes
from kqueue.network.fair_scheduler import MUST_QUEUE, NEW_SLICE_S
from kqueue.network.memory_budgets import RESPONSE_SHARE
from kqueue.network.receive_buffer import HELD_BYTES_MAX, ReceiveBuffer
from kqueue.network.responses import DeferredResponse
from kqueue.network.send_queue import REGIONS_MAX, SendQueue, memory_bytes

PRODUCE: Final[bytes] = b"\0\0"
"""The first two bytes of a Produce request: its API key."""
_EMPTY: Final = memoryview(b"")
READY_BYTES = 64 * KiB
"""A sender with so many unread bytes waits for the broker, and is not slow."""
DECODED_FACTOR = 4
"""A deferred request is assumed to hold so many times its size, once decoded. Produce requests keep
little while they are deferred.
"""


class Session:
    """A client's connection, from accept to close; a `ManagedConnection`.

    `address`: host:port, for log lines. `client_host`: the host as Kafka writes it.
    `client_software`: name and version, as ApiVersions says; "" before it. `start` starts one
    request; until a client has authenticated, something else takes the place of the dispatcher's.
    `sasl`: its authentication; None: its listener has none.
    """

    __slots__ = ("_arrived_ms", "_blocked", "_blocked_since_ms", "_closed", "_input", "_is_partitioned",
                 "_is_throttled", "_output", "_overlapping", "_parked_bytes", "_queued", "_read_ms", "_reader_meter",
                 "_reading", "_received_bytes", "_received_ms", "_received_swept", "_registry",
                 "_requests_paused", "_responses", "_responses_bytes", "_sender_meter", "_sent_ms",
                 "_sent_swept", "_shaper", "_socket", "_stopping", "_unsent_bytes", "_unsent_bytes_max",
                 "_waits_for_memory", "address", "call", "client_host", "client_software", "host", "listener",
                 "principal", "receive_buffer", "sasl", "served_s", "slice_s", "start")  # fmt: skip

    def __init__(self, registry: ConnectionRegistry, sock: StreamSocket, accepted: Accepted) -> None:
        self._registry = registry
        self._socket = sock
        self.host, port, self.listener, self.principal = accepted
        self.address = f"{self.host}:{port}"
        self.client_host = f"/{self.host}"
        self.client_software = ("", "")
        self.start = registry.start
        self.sasl: object = None
        self.call: RequestContext | None = None
        self._output = SendQueue(sock, registry.loop, registry.jobs, failed=self._lost, drained=self._continue_reading)
        self._output.blocked = registry.send_blocked
        limits = registry.limits
        self._input = self.receive_buffer = ReceiveBuffer(
            registry.received, registry.buffers, registry.request_budget, self, limits.request_bytes
        )
        self._responses: deque[Chunks | DeferredResponse] = deque()
        self._responses_bytes = 0
        self._unsent_bytes_max = limits.response_bytes // 2
        self._closed = self._stopping = self._waits_for_memory = self._requests_paused = self._is_partitioned = False
        self._is_throttled = False
        self._shaper: ResponseShaper | None = None
        self._blocked = False  # see _block
        self._blocked_since_ms = 0.0  # also: since when a request that counts as memory is deferred
        self._unsent_bytes = 0  # as counted in the response budget
        self._parked_bytes = 0  # of a decoded request that is deferred
        self._sender_meter: ThroughputMeter | None = None
        self._reader_meter: ThroughputMeter | None = None
        self._queued = False  # in the queue of the `FairScheduler`
        self.served_s, self.slice_s = 0.0, NEW_SLICE_S
        self._overlapping = False  # all incomplete requests are Produces
        self._received_bytes = self._received_swept = self._sent_swept = 0
        self._received_ms = self._sent_ms = registry.clock.monotonic_ms()
        self._arrived_ms = self._read_ms = 0.0  # of the request that begins next, and of the last read
        self._reading = True
        registry.loop.add_reader(sock, self._readable)
        registry.add(self)

    @property
    def is_idle(self) -> bool:
        """Whether no request is under way and every response was sent."""
        return not self._responses and self._output.is_empty

    @property
    def delayed_apis(self) -> list[str]:
        """The APIs of the requests whose response is not known yet."""
        return [one.api for one in self._responses if isinstance(one, DeferredResponse) and one.chunks is None]

    @property
    def has_unsent(self) -> bool:
        """Whether there are responses that the client has not received."""
        return not (self._output.is_empty or self._is_partitioned)

    @property
    def held_regions(self) -> int:
        """Regions of log files that are not sent; see `SendQueue`."""
        return self._output.held_regions

    @property
    def sent_since_sweep(self) -> int:
        """Bytes of responses that were sent since the last sweep."""
        return self._output.sent_bytes - self._sent_swept

    # --- requests arrive

    def _readable(self) -> None:
        input_ = self._input
        # Over the budget only the rest of a large request has to wait. All other reads go into the
        # shared buffer, which costs no memory.
        if input_.is_large and not self._registry.request_budget.may_read(self):
            self._waits_for_memory = True
            self._pause_reading()
            return
        try:
            # One read per call: the loop calls again while bytes are left (add_reader is
            # level-triggered), after it has served the other sockets. Reading until EAGAIN would
            # let one fast sender keep the loop.
            count = self._socket.recv_into(input_.space())
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._lost(error.strerror or str(error))
            return
        if not count:
            self._peer_closed()
            return
        self._received_bytes += count
        if self._registry.notes_arrivals:
            self._read_ms = self._registry.clock.monotonic_ms()
            if not input_.has_partial:
                self._arrived_ms = self._read_ms
        scheduler = self._registry.scheduler
        until = scheduler.begin(self)
        input_.added(count)
        self._begin_requests(until)
        if not self._reading:  # the responses that were sent may have ended the reason
            self._continue_reading()
        scheduler.end(self)

    def take_arrival_ms(self) -> float:
        """Return when the first byte of the request that begins arrived; see `Connection`."""
        arrived_ms, self._arrived_ms = self._arrived_ms, self._read_ms
        return arrived_ms

    def run_slice(self) -> None:
        """Begin the requests that have arrived, for one time slice."""
        self._queued = False
        if self._closed:
            return
        scheduler = self._registry.scheduler
        until = scheduler.begin(self)
        began_all = False
        if not self._is_busy:
            self._input.restore()
            began_all = self._begin_requests(until)
        else:
            # Mostly it is busy because the client owes a read: sending is what ends that.
            self._output.flush()
        scheduler.end(self)
        # Not all began: the flush may just have ended the reason. All began: the pause was for the
        # queue alone.
        if not began_all:
            self._continue_reading()
        elif not (self._reading or self._waits_for_memory or self._is_busy):
            self._start_reading()

    def _begin_requests(self, until: float) -> bool:
        """Begin the whole requests while the connection is not busy, then send the complete
        responses. Returns whether it began all of them.
        """
        input_, now = self._input, self._registry.scheduler.now
        frame: memoryview | None = _EMPTY
        # The first request of a slice begins without a look at the clock, so every slice makes
        # progress. After MUST_QUEUE, a time long past, the first one is put back and queues.
        is_first = until != MUST_QUEUE
        try:
            while not self._is_busy:
                frame = input_.next_frame()
                if frame is None:
                    break
                if is_first:
                    is_first = False
                elif now() >= until:
                    input_.put_back(frame)
                    self._queue_slice()
                    break
                # The API key decides, before the request is decoded: it is put back, and decoded
                # when it begins.
                if self._responses and not (self._overlapping and frame[:2] == PRODUCE):
                    input_.put_back(frame)
                    self._block()
                    break
                self._begin(frame)
            # Busy: what has arrived stays in the buffer, and the rest in the kernel, until
            # `_continue_reading`.
            else:
                self._pause_reading()
            input_.save()
            # A part of the next request is here, which may not begin before the others are
            # answered: reading on would only fill memory with it.
            if self._responses and not self._overlapping and input_.has_partial:
                self._block()
        # The dispatcher answers what a handler raises. What gets here has no response: the frame is
        # malformed, so where the next one begins is unknown.
        except KqueueError as error:
            self.cut_off(str(error))
        except OSError as error:
            self.cut_off(f"there is no memory for its request: {error}")
        except Exception as error:
            self.cut_off("its request failed with an unexpected error", error)
        self._output.flush()
        self._count_unsent()
        return frame is None

    def _count_unsent(self) -> None:
        unsent = self._output.queued_bytes + self._responses_bytes
        if unsent != self._unsent_bytes:
            by, self._unsent_bytes = unsent - self._unsent_bytes, unsent
            self._registry.response_budget.change(by)

    def _begin(self, frame: memoryview) -> None:
        registry = self._registry
        response = self.start(frame, self)
        if response is None:
            return
        if isinstance(response, DeferredResponse):
            # True while all incomplete requests are Produces: the first one sets it, any other ends
            # it until all are answered.
            self._overlapping = response.overlaps and (self._overlapping or not self._responses)
            self._responses.append(response)
            registry.waiting_requests += 1
            if not response.overlaps and len(frame) > HELD_BYTES_MAX:
                self._parked_bytes = len(frame) * DECODED_FACTOR
                self._blocked_since_ms = registry.clock.monotonic_ms()
                registry.request_budget.take(self._parked_bytes)
        # Complete, but behind others: clients match responses to requests by their order, and only
        # compare the correlation id.
        elif self._responses:
            self._responses.append(response)
            registry.waiting_requests += 1
            self._responses_bytes += memory_bytes(response)
        else:
            # The usual case, with no request before it: the response is not even queued here.
            self._output.add(response)

    def _queue_slice(self) -> None:
        """Queue for another time slice, and do not read before it."""
        self._pause_reading()
        if not self._queued:
            self._queued = True
            self._registry.scheduler.add(self)

    def _block(self) -> None:
        """Stop reading: the next request has arrived, in part or whole, and may not begin before
        all others are complete.
        """
        self._blocked = True
        if not self._parked_bytes:
            self._blocked_since_ms = self._registry.clock.monotonic_ms()
        self._pause_reading()

    @property
    def _is_busy(self) -> bool:
        """Whether the next request may not begin. For each reason, the method that ends it calls
        `_continue_reading`; it is named in parentheses.
        """
        if self._responses and self._waits_for_earlier():
            return True
        output = self._output
        unsent = output.queued_bytes + self._responses_bytes
        # Names, not calls: each request asks twice, and mostly none is the case.
        client_must_read = (  # memory: responses and open files are held until they are sent (flush)
            unsent > self._unsent_bytes_max
            or unsent * RESPONSE_SHARE >= self._registry.response_budget.free
            or output.waiting_regions >= REGIONS_MAX
        )
        is_held = (  # by others: quota (end_throttle), fault (resume_io, resume_requests), stop (never)
            self._is_throttled or self._is_partitioned or self._requests_paused or self._stopping
        )
        # fairness: while it is queued, its time slice has ended, and others have theirs (run_slice)
        return client_must_read or self._queued or is_held

    def _waits_for_earlier(self) -> bool:
        """Whether requests before the next one must be answered first (`response_ready`): their
        order forbids overlapping, or too many are under way, here or of all connections.
        """
        registry = self._registry
        return (
            self._blocked
            or len(self._responses) >= registry.limits.requests
            or registry.waiting_requests >= registry.limits.requests_of_all
        )

    # --- responses leave

    def response_ready(self) -> None:
        """Queue the complete responses for the next flush, up to the first that is incomplete."""
        responses = self._responses
        while responses and not self._closed:
            first = responses[0]
            if isinstance(first, DeferredResponse):
                if first.chunks is None:
                    break
                chunks = first.chunks
                if self._parked_bytes and not first.overlaps:
                    self._release_parked()
            else:
                chunks = first
                self._responses_bytes -= memory_bytes(chunks)
            responses.popleft()
            self._registry.waiting_requests -= 1
            self._send(chunks)
        # Not sent here: what one turn completes for a connection leaves in one send, by the
        # registry's `flush`.
        self._registry.will_send(self)

    def _release_parked(self) -> None:
        parked, self._parked_bytes = self._parked_bytes, 0
        if parked:
            self._registry.request_budget.release(parked)

    def flush(self) -> None:
        """Send the complete responses, and continue to read if that freed memory."""
        self._output.flush()
        self._continue_reading()

    def _send(self, chunks: Chunks) -> None:
        # Looked at before this response is added: one of any size may be queued, a second only once
        # the client has read of the first.
        queued_bytes = self._output.queued_bytes
        if queued_bytes > self._registry.limits.response_bytes:
            self.cut_off(f"it does not read its answers: {queued_bytes} bytes wait (kqueue.queued.max.response.bytes)")
            return
        if self._shaper is None:
            self._output.add(chunks)
        else:
            self._shaper(chunks, partial(self._send_shaped, chunks))

    def _send_shaped(self, chunks: Chunks) -> None:
        """Send a response that `_shaper` held back. After `close` this does nothing."""
        if not self._closed:
            self._output.add(chunks)
            self.flush()

    # --- reading, or not

    def _pause_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._registry.loop.remove_reader(self._socket)

    def _continue_reading(self) -> None:
        """Read after a pause if nothing prevents it. Requests that have arrived already begin
        first, in a time slice.
        """
        self._count_unsent()
        if self._reading or self._waits_for_memory:
            return
        if self._is_busy:
            budget = self._registry.response_budget
            # Nothing of its own will be sent, so nothing but the budget would resume it.
            if not (self._unsent_bytes or self._closed) and budget.denies(0):
                budget.wait(self)
            return
        self._blocked = False
        if self._input.has_partial:
            self._queue_slice()
        else:
            self._start_reading()

    def _start_reading(self) -> None:
        self._reading = True
        self._registry.loop.add_reader(self._socket, self._readable)

    def resume(self) -> None:
        """Continue: memory for requests or responses is free again (see `memory_budgets`)."""
        self._waits_for_memory = False
        self._continue_reading()

    def pause_requests(self) -> None:
        """Begin no more requests until `resume_requests`. Responses are still sent."""
        self._requests_paused = True

    def resume_requests(self) -> None:
        """Begin requests again after `pause_requests`."""
        self._requests_paused = False
        self._continue_reading()

    def throttle(self, ms: int) -> None:
        """Begin no more requests, and read nothing, for `ms` milliseconds. Responses are sent."""
        if not self._closed:
            self._is_throttled = True
            self._registry.throttle(self, ms)

    def end_throttle(self) -> None:
        self._is_throttled = False
        self._continue_reading()

    def suspend_io(self) -> None:
        """Neither read nor send until `resume_io`: a simulated network partition. Only `close` and
        `cut_off` close the connection meanwhile.
        """
        if not self._closed:
            self._is_partitioned = True
            self._pause_reading()
            self._output.suspend()

    def resume_io(self) -> None:
        """Read and send again after `suspend_io`."""
        if self._is_partitioned and not self._closed:
            self._is_partitioned = False
            self._output.resume()
            self._continue_reading()

    def shape_responses(self, shaper: ResponseShaper | None) -> None:
        """Give each response to `shaper`, which sends it later; None: send them at once again."""
        self._shaper = shaper

    def stop_reading(self) -> None:
        """Begin no more requests, for good."""
        self._stopping = True
        self._pause_reading()

    def expire(self) -> None:
        """Complete the deferred responses that have a deadline as if it had passed."""
        for response in list(self._responses):
            if isinstance(response, DeferredResponse):
                response.expire()

    # --- the sweep

    def check(self, now_ms: float) -> None:
        """Close the connection if it is idle, or too slow to send or to read; called by each sweep.

        A paused connection continues here if it may.
        """
        # Measured first: a retry of the send may free what keeps the connection paused.
        self._measure(now_ms)
        self._continue_reading()
        if self._blocked and self._responses and peer_has_closed(self._socket):
            self.expire()  # else a long wait would keep the session of a client that is gone
        if self._is_throttled and peer_has_closed(self._socket):
            self.end_throttle()  # reads the end
        has_partial = self._input.has_partial
        received = self._received_bytes - self._received_swept
        # time counts as idle only while the client has to send
        if received or not self._reading or not (has_partial or self.is_idle):
            self._received_swept, self._received_ms = self._received_bytes, now_ms
        if self._output.sent_bytes != self._sent_swept or not self._output.waits_for_client:
            self._sent_swept, self._sent_ms = self._output.sent_bytes, now_ms
        idle_ms = now_ms - self._received_ms
        limits = self._registry.limits
        if now_ms - self._sent_ms >= limits.slow_reader_ms:
            self.cut_off(
                f"it took no byte of its answers for {limits.slow_reader_ms} ms (kqueue.slow.reader.timeout.ms)"
            )
        elif has_partial and self._reading:
            if idle_ms >= limits.slow_sender_ms:
                self.cut_off(
                    f"it stopped in the middle of a request for {limits.slow_sender_ms} ms "
                    f"(kqueue.slow.sender.timeout.ms)"
                )
        elif limits.idle_ms is not None and idle_ms >= limits.idle_ms:
            self.cut_off(
                f"it was idle for {limits.idle_ms} ms (connections.max.idle.ms)", event=events.CONNECTION_ENDED
            )

    def _measure(self, now_ms: float) -> None:
        if self._input.missing_bytes:
            # Bytes that wait in the kernel are sent: where the broker does not read, the client is
            # not slow.
            received_bytes = self._received_bytes + unread_bytes(self._socket)
            self._sender_meter = sampled(self._sender_meter, received_bytes, now_ms)
        else:
            self._sender_meter = None
        if self._unsent_bytes and not self._is_partitioned:
            self._output.retry()
            self._reader_meter = sampled(self._reader_meter, self._output.sent_bytes, now_ms)
        else:
            self._reader_meter = None

    def request_memory(self) -> MemoryHolding | None:
        """Return what it holds of the request budget; None: nothing, the broker delays it, or its
        rate is unknown.
        """
        held = self._input.counted_bytes + self._parked_bytes
        blocked_ms = self._registry.clock.monotonic_ms() - self._blocked_since_ms
        if (
            self._responses
            and (self._blocked or self._parked_bytes)
            and blocked_ms > self._registry.limits.slow_holder_ms
        ):
            return MemoryHolding(held, 0, 0, math.inf)  # its own deferred request keeps this memory
        if self._sender_meter is None or (not self._reading and unread_bytes(self._socket) >= READY_BYTES):
            return None
        return self._sender_meter.holding(held, self._input.missing_bytes)

    def response_memory(self) -> MemoryHolding | None:
        """Return what it holds of the response budget; None: nothing, or its rate is unknown."""
        return (
            None if self._reader_meter is None else self._reader_meter.holding(self._unsent_bytes, self._unsent_bytes)
        )

    # --- the end

    def cut_off(
        self, reason: str, error: BaseException | None = None, *, event: LogEvent = events.CONNECTION_CLOSED
    ) -> None:
        """Log `reason`, with the traceback of `error`, send the complete responses, and close."""
        if self._closed:
            return
        event = events.CONNECTION_FAILED if error is not None else event
        self._registry.client_log.log(
            event, self.address, "closed the connection of %s: %s", client=self.address, reason=reason, exc_info=error
        )
        # Before the flush: an empty queue would begin the next request, and a failed send would log
        # the end a second time.
        self._stopping = True
        self._output.flush()
        self.close()

    def close(self) -> None:
        """Close at once. Deferred responses are cancelled; changes that were made stay. A second
        call does nothing.
        """
        if self._closed:
            return
        self._closed = self._stopping = True
        self._pause_reading()
        for response in self._responses:
            if isinstance(response, DeferredResponse):
                response.cancel()
        self._registry.waiting_requests -= len(self._responses)
        self._responses.clear()
        self._responses_bytes = 0
        self._output.close()
        self._input.close()
        self._release_parked()
        self._count_unsent()
        self._registry.response_budget.remove_waiter(self)
        # Last: the loop knows sockets by descriptor, and the system gives a closed one to the next
        # connection.
        self._socket.close()
        self._registry.remove(self)

    def close_descriptor(self) -> None:
        """Close this process's copy of the socket only; see `Server.close_descriptors`."""
        self._socket.close()

    def _peer_closed(self) -> None:
        if self._input.has_partial:
            self._lost("it ended in the middle of a request")
        else:
            self.close()

    def _lost(self, reason: str) -> None:
        if not self._stopping:
            self._registry.client_log.log(
                events.CONNECTION_LOST,
                self.address,
                "lost the connection of %s: %s",
                client=self.address,
                reason=reason,
            )
        self.close()
