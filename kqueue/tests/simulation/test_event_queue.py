from kqueue.tests.simulation.event_queue import DriftingClock, EventQueue


def test_events_run_in_the_order_of_their_times_then_of_their_creation() -> None:
    queue, order = EventQueue(), []
    queue.at(5, lambda: order.append(("b", queue.now_ms)))
    queue.at(5, lambda: order.append(("c", queue.now_ms)))
    queue.after(2, lambda: order.append(("a", queue.now_ms)))
    queue.at(9, lambda: order.append(("late", queue.now_ms)))
    queue.run_until(8)
    assert order == [("a", 2), ("b", 5), ("c", 5)]
    assert (queue.now_ms, queue.count) == (8, 3)


def test_an_event_of_the_past_runs_now() -> None:
    queue, times = EventQueue(), []
    queue.run_until(10)
    queue.at(3, lambda: times.append(queue.now_ms))
    queue.run_until(10)
    assert times == [10]


def test_a_clock_that_drifts_reaches_its_deadlines_at_the_time_it_says() -> None:
    queue = EventQueue()
    for rate in (0.98, 1.0, 1.02):
        clock = DriftingClock(queue, rate)
        for deadline_ms in (0.1, 333.3, 1e6 / 3):
            reached = clock.time_of(deadline_ms)
            assert reached * rate >= deadline_ms
            assert reached * rate - deadline_ms < 0.001
    queue.run_until(1000)
    assert (clock.monotonic_ms(), clock.wall_ms()) == (1020, 1_700_000_001_020)
