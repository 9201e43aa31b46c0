import pytest

from kqueue.tests.simulation.replication_world import InvariantViolated
from kqueue.tests.simulation.simulated_clients import Consumer, Producer
from kqueue.tests.simulation.simulated_clusters import history, run_for, simulation_at_work


def test_a_producer_sends_each_batch_once_and_a_consumer_reads_them_all() -> None:
    simulation = simulation_at_work()
    key = simulation.keys()[0]
    known = history(simulation)
    producer, consumer = Producer(simulation, 77, -1), Consumer(simulation, 78)
    while len(producer.acknowledged.get(key, ())) < 3:
        producer.produce(key)
        run_for(simulation, 20)
    while consumer.positions.get(key, 0) < known.end:
        consumer.read(key)
        run_for(simulation, 20)
    assert {known.committed[offset].crc for offset in producer.acknowledged[key]} == {
        *producer.acknowledged[key].values()
    }
    simulation.check_delivered()


def test_a_batch_that_is_committed_twice_is_found() -> None:
    simulation = simulation_at_work()
    known = history(simulation)
    producer = simulation.producers[0].producer_id
    batch = next(batch for batch in known.committed.values() if batch.producer_id == producer)
    last = known.end + batch.last_offset - batch.base_offset
    known.committed[known.end] = batch._replace(base_offset=known.end, last_offset=last)
    with pytest.raises(InvariantViolated, match=f"sequence {batch.base_sequence} of producer"):
        simulation.check_delivered()


def test_batches_without_a_producer_id_have_no_sequence() -> None:
    simulation = simulation_at_work()
    assert any(
        batch.producer_id == -1
        for known in simulation.invariants.histories.values()
        for batch in known.committed.values()
    )
    simulation.producers[0].producer_id = -1  # it got none before the faults ended
    simulation.check_delivered()


def test_a_confirmed_batch_that_is_not_committed_is_found() -> None:
    simulation = simulation_at_work()
    key, known = simulation.keys()[0], history(simulation)
    offset = next(offset for offset in simulation.producers[0].acknowledged[key])
    known.committed[offset] = known.committed[offset]._replace(crc=0)
    with pytest.raises(InvariantViolated, match="the confirmed batch"):
        simulation.check_delivered()


def test_a_consumer_that_reads_something_else_is_found() -> None:
    simulation = simulation_at_work()
    key, known = simulation.keys()[0], history(simulation)
    known.committed[0] = known.committed[0]._replace(crc=0)
    consumer = Consumer(simulation, 78)
    consumer.read(key)  # finds the leader
    run_for(simulation, 200)
    consumer.read(key)
    with pytest.raises(InvariantViolated, match="consumer -78 reads"):
        run_for(simulation, 500)
