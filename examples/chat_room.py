"""Publish/subscribe: a chat room, in which everybody gets every line.

Participants name no group, so each gets all lines from the moment it joins. The archive has a group
of its own, which nobody shares, so it gets all lines too, from the first one. (Consumers that share
a group share the lines: see acknowledged_queue.py.) The room has one partition, so all see the
lines in the same order.

Run it with: python examples/chat_room.py        (needs kqueue and aiokafka)
"""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

import kqueue

ROOM = "chat-room"
CLOSED = b"the room closes"


class Participant:
    """Somebody in the room: what it has seen, and how it says something."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.screen: list[str] = []

    async def join(self, bootstrap: str, group: str | None = None) -> None:
        self.producer = AIOKafkaProducer(bootstrap_servers=bootstrap)
        self.consumer = AIOKafkaConsumer(
            ROOM,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="latest" if group is None else "earliest",
        )
        await self.producer.start()
        await self.consumer.start()
        if group is None:
            await self.consumer.seek_to_end()  # from here on
        self.reading = asyncio.create_task(self.read())

    async def read(self) -> None:
        async for message in self.consumer:
            if message.value == CLOSED:
                return
            self.screen.append(f"{message.key.decode()}: {message.value.decode()}")

    async def say(self, line: str) -> None:
        await self.producer.send_and_wait(ROOM, line.encode(), key=self.name.encode())

    async def leave(self) -> None:
        await self.reading
        await self.consumer.stop()
        await self.producer.stop()


async def chat(bootstrap: str) -> list[Participant]:
    ada, bob, cleo, archive = room = [Participant(name) for name in ("Ada", "Bob", "Cleo", "the archive")]
    await ada.join(bootstrap)
    await bob.join(bootstrap)
    await ada.say("is anybody here?")
    await bob.say("I am")

    await cleo.join(bootstrap)  # late
    await archive.join(bootstrap, group="archive")
    await cleo.say("good morning!")
    await ada.say("good morning, Cleo")

    await bob.say(CLOSED.decode())
    await asyncio.gather(*(participant.leave() for participant in room))
    return room


async def main() -> None:
    async with kqueue.Broker() as broker:
        broker.create_topic(ROOM)
        room = await chat(broker.bootstrap)

    for participant in room:
        print(f"{participant.name} saw {len(participant.screen)} lines")
        for line in participant.screen:
            print(f"    {line}")


if __name__ == "__main__":
    asyncio.run(main())
