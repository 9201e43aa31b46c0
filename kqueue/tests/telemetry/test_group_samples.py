from __future__ import annotations

from kafka import KafkaConsumer, KafkaProducer

import kqueue
from kqueue.tests.api.harness import SimulatedClient
from kqueue.tests.api.share_client import ACCEPT, REJECT, RELEASE, Member, earliest, fill
from kqueue.tests.telemetry.scraping import samples_of, scrape


def test_members_and_the_age_of_a_lag() -> None:
    with kqueue.Broker(kqueue_metrics_listener="127.0.0.1:0") as broker:
        broker.create_topic("t")
        broker.topics["t"].produce_all([b"x"] * 2)
        consumer = KafkaConsumer(
            "t",
            bootstrap_servers=broker.bootstrap,
            group_id="g",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        while not consumer.poll(1000):
            pass
        consumer.commit()
        t_0 = (("group", "g"), ("partition", "0"), ("topic", "t"))
        values = scrape(broker)
        assert values["kqueue_group_members", (("group", "g"),)] == 1
        assert values["kqueue_group_lag_age_seconds", t_0] == 0
        broker.topics["t"].produce_all([b"y"])
        scrape(broker)
        assert scrape(broker)["kqueue_group_lag_age_seconds", t_0] > 0
        consumer.close(autocommit=False)


def test_transactions_are_counted_by_their_end_and_the_oldest_open_one_has_an_age() -> None:
    with kqueue.Broker(kqueue_metrics_listener="127.0.0.1:0") as broker:
        broker.create_topic("t")
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id="tx")
        producer.init_transactions()
        for end in (producer.commit_transaction, producer.abort_transaction):
            producer.begin_transaction()
            producer.send("t", b"x").get(10)
            end()
        producer.begin_transaction()
        producer.send("t", b"x").get(10)
        values = scrape(broker)
        assert values["kqueue_transactions", (("state", "ONGOING"),)] == 1
        assert values["kqueue_transaction_age_seconds_max", ()] > 0
        successor = KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id="tx")
        successor.init_transactions()
        values = scrape(broker)
        results = ("commit", "abort", "fence")
        ended = [values["kqueue_transactions_ended_total", (("result", result),)] for result in results]
        assert ended == [1, 1, 1]
        assert values["kqueue_transaction_age_seconds_max", ()] == 0
        producer.close(0)
        successor.close()


def test_records_of_a_share_group_are_counted_by_what_became_of_them() -> None:
    client = SimulatedClient()
    client.sim.topic("t", 2)
    earliest(client, kqueue_share_dead_letter_topic="dead", share_delivery_count_limit="2")
    fill(client, 4)
    member = Member(client)
    member.fetch()
    member.acknowledge((0, 0, ACCEPT), (1, 1, REJECT), (2, 2, RELEASE))
    member.fetch()
    client.sim.advance(31_000)  # the locks end: the third for the second time, the fourth for the first
    values = samples_of(client.sim.broker).values
    assert values["kqueue_share_delivered_records"]["g",] == 5
    assert values["kqueue_share_redelivered_records"]["g",] == 1
    assert values["kqueue_share_given_up_records"] == {("g", "rejected"): 1, ("g", "delivery count limit"): 1}
    assert values["kqueue_share_dead_lettered_records"]["g",] == 2
    assert values["kqueue_share_records_in_flight"]["g",] == 1
