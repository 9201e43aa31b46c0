"""Confirms orders with FastStream, over aiokafka or confluent-kafka.

`python faststream_app.py aiokafka|confluent BOOTSTRAP`
"""

from __future__ import annotations

import asyncio
import sys

from faststream import AckPolicy, FastStream
from pydantic import BaseModel


class Order(BaseModel):
    id: int
    customer: str


class Confirmation(BaseModel):
    order: int
    text: str


def main(client: str, bootstrap: str) -> None:
    if client == "aiokafka":
        from faststream.kafka import KafkaBroker
    else:
        from faststream.confluent import KafkaBroker
    broker = KafkaBroker(bootstrap)

    # acknowledged after its confirmation is sent; the default commits at intervals, done or not
    @broker.subscriber("orders", group_id="confirming", auto_offset_reset="earliest", ack_policy=AckPolicy.ACK)
    @broker.publisher("confirmations")
    async def confirm(order: Order) -> Confirmation:
        return Confirmation(order=order.id, text=f"thank you, {order.customer}")

    asyncio.run(FastStream(broker).run())


if __name__ == "__main__":
    main(*sys.argv[1:])
