import pytest

from kqueue.interbroker.errors import PeerError
from kqueue.tests.simulation.simulated_clients import Client
from kqueue.tests.simulation.simulated_clusters import run_for, simulation_at_work
from kqueue.wire.messages.describe_cluster import DescribeClusterRequest


@pytest.fixture
def simulation():
    return simulation_at_work()


def ask(simulation, client, count=1):
    """Ask broker 1 some times; returns the list that the answers come to."""
    answers: list[object] = []
    for number in range(count):
        client.send(1, DescribeClusterRequest(), lambda response, number=number: answers.append((number, response)))
    return answers


def test_a_connection_keeps_its_order(simulation) -> None:
    answers = ask(simulation, Client(simulation, 9), 30)
    run_for(simulation, 2000)
    assert [number for number, _ in answers] == list(range(30))
    assert {len(response.brokers) for _, response in answers} == {3}


def test_request_sent_into_a_cut_arrives_later_or_is_lost(simulation) -> None:
    outcomes = set()
    for number in range(10, 30):
        client = Client(simulation, number)
        simulation.network.cuts.add((client.number, 1))
        answers = ask(simulation, client)
        run_for(simulation, 1000)
        assert not answers
        simulation.network.mend((client.number, 1))
        run_for(simulation, 1000)
        ((_, answer),) = answers
        outcomes.add(isinstance(answer, PeerError))
    assert outcomes == {True, False}


def test_no_request_to_a_broker_that_does_not_run_is_answered(simulation) -> None:
    client = Client(simulation, 9)
    answers = ask(simulation, client)
    simulation.brokers[1].kill()
    run_for(simulation, 500)
    later = ask(simulation, client)
    run_for(simulation, 500)
    assert [type(answer).__name__ for _, answer in (*answers, *later)] == ["PeerUnavailable"] * 2


def test_a_request_without_an_answer_times_out(simulation) -> None:
    client = Client(simulation, 9)
    simulation.network.cuts.add((1, client.number))
    answers = ask(simulation, client)
    run_for(simulation, 5000)
    assert [type(answer).__name__ for _, answer in answers] == ["PeerTimedOut"]
