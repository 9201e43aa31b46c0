'use strict'

const { until } = require('./calls')

const WAIT_MS = 60_000

// Writes numbered records and reads them as a group, while brokers of a cluster are killed. Prints the values that it
// has read, each once, in order.
async function failover(kafka, topic, count) {
  const consumer = kafka.consumer({ groupId: topic, maxWaitTimeInMs: 100, heartbeatInterval: 500, sessionTimeout: 6_000 })
  const values = new Set()
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({ eachMessage: async ({ message }) => values.add(String(message.value)) })
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  for (let number = 0; number < count; number++) {
    await producer.send({ topic, acks: -1, messages: [{ partition: 0, value: String(number) }] })
  }
  await until(() => values.size >= count, `${count} values`, WAIT_MS)
  console.log(JSON.stringify([...values]))
}

module.exports = { failover }
