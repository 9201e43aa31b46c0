from kqueue.testing.faulty_storage import Remains
from kqueue.tests.simulation.simulated_clusters import replica, run_for, simulation_at_work


def restarted(simulation, broker):
    run_for(simulation, 3000)
    broker.start()
    run_for(simulation, 3000)
    assert simulation.process_of(broker.number).member.is_unfenced
    simulation._heal()


def test_a_killed_broker_comes_back_with_a_new_epoch() -> None:
    simulation = simulation_at_work()
    broker = simulation.brokers[1]
    before = simulation.invariants.brokers[1].epoch
    broker.kill()
    assert simulation.process_of(1) is None
    restarted(simulation, broker)
    assert simulation.invariants.brokers[1].epoch > before


def test_a_start_is_repeated_while_the_former_session_lives() -> None:
    simulation = simulation_at_work()
    broker = simulation.brokers[2]
    broker.kill()
    broker.start()
    assert simulation.process_of(2) is None
    run_for(simulation, 3000)
    assert simulation.process_of(2) is not None


def test_a_power_cut_leaves_what_was_flushed() -> None:
    simulation = simulation_at_work()
    process, partition = replica(simulation, of_leader=False)
    ends = partition.high_watermark
    assert ends > 0
    process.node.lose_power(Remains.LOST)
    run_for(simulation, 3000)
    process.node.start()
    run_for(simulation, 3000)
    partition_after = process.node.process.broker.topics.get(partition.topic).partitions[partition.index]
    assert partition_after.log_end_offset >= ends
    simulation._heal()


def test_a_paused_process_does_nothing_until_it_is_resumed() -> None:
    simulation = simulation_at_work()
    broker = simulation.brokers[1]
    broker.pause()
    done = []
    broker.process.execute(lambda: done.append(simulation.queue.now_ms))
    run_for(simulation, 3000)
    assert not done
    assert simulation.invariants.brokers[1].fenced
    broker.resume()
    assert done == [simulation.queue.now_ms]
    simulation._heal()


def test_a_broker_that_leaves_hands_over_what_it_leads() -> None:
    simulation = simulation_at_work()
    simulation.brokers[1].leave()
    run_for(simulation, 2000)
    assert simulation.process_of(1) is None
    assert all(history.registration.leader in (2, 3) for history in simulation.invariants.histories.values())
    simulation._heal()
