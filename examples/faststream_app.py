"""FastStream: functions that are called with each message, and whose result is published.

`bill` subscribes to orders and publishes bills; FastStream decodes and checks the messages by the
types of its arguments. FastStream's broker object is a client (aiokafka) of the kqueue broker.

Run it with: python examples/faststream_app.py        (needs kqueue and faststream[kafka])
"""

from __future__ import annotations

import asyncio

from faststream import FastStream
from faststream.kafka import KafkaBroker
from pydantic import BaseModel, PositiveInt

import kqueue

PRICES = {"coffee": 3, "tea": 2}
ORDERS = [("Ada", "coffee", 2), ("Bob", "tea", 1), ("Ada", "tea", 3)]


class Order(BaseModel):
    customer: str
    item: str
    pieces: PositiveInt


class Bill(BaseModel):
    customer: str
    amount: int


def make_app(bootstrap: str) -> FastStream:
    client = KafkaBroker(bootstrap, logger=None)
    app = FastStream(client, logger=None)
    bills: list[Bill] = []

    @client.subscriber("orders", group_id="billing", auto_offset_reset="earliest")
    @client.publisher("bills")
    async def bill(order: Order) -> Bill:
        return Bill(customer=order.customer, amount=order.pieces * PRICES[order.item])

    @client.subscriber("bills", group_id="mail", auto_offset_reset="earliest")
    async def mail(bill: Bill) -> None:
        print(f"{bill.customer} pays {bill.amount}")
        bills.append(bill)
        if len(bills) == len(ORDERS):
            app.exit()

    @app.after_startup
    async def order() -> None:
        for customer, item, pieces in ORDERS:
            await client.publish(Order(customer=customer, item=item, pieces=pieces), "orders")

    return app


async def main() -> None:
    async with kqueue.Broker() as broker:
        broker.create_topic("orders")
        broker.create_topic("bills")
        await make_app(broker.bootstrap).run()
        print(f"{len(broker.topics['bills'].records())} bills for {len(ORDERS)} orders")


if __name__ == "__main__":
    asyncio.run(main())
