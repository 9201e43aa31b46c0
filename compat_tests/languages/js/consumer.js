'use strict'

const { PartitionAssigners } = require('kafkajs')
const { Calls, NO_REQUEST, sleep, until } = require('./calls')

const SOURCE = 'js-source'
const TARGET = 'js-target'
const COPIES = 'js-copies'

// Values of a topic as a reader of its own group sees them.
async function read(kafka, topic, groupId, readUncommitted, count) {
  const consumer = kafka.consumer({ groupId, readUncommitted, maxWaitTimeInMs: 100 })
  const values = []
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({ eachMessage: async ({ message }) => values.push(String(message.value)) })
  await until(() => values.length >= count, `${count} messages`)
  await consumer.disconnect()
  return values.sort()
}

async function consume(kafka) {
  const calls = new Calls('kafkajs.Consumer')
  await calls.call('run/committed', () => read(kafka, TARGET, 'js-committed', false, 3))
  await calls.call('run/uncommitted', () => read(kafka, TARGET, 'js-uncommitted', true, 5))

  const seen = []
  const settings = { groupId: 'js-group', maxWaitTimeInMs: 100, heartbeatInterval: 100, sessionTimeout: 6_000 }
  const consumer = kafka.consumer({ ...settings, partitionAssigners: [PartitionAssigners.roundRobin] })
  const joined = []
  await calls.call('on', () => {
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => joined.push(payload.memberAssignment[SOURCE]))
  })
  await calls.call('connect', () => consumer.connect())
  await calls.call('subscribe', () => consumer.subscribe({ topics: [SOURCE], fromBeginning: true }))
  await calls.call('run', async () => {
    await consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition, message }) => seen.push([partition, Number(message.offset)]),
    })
    await until(() => seen.length >= 4, '4 messages')
    return seen.slice().sort()
  })
  await calls.call('run/assigned', () => joined[0].slice().sort())
  await calls.call('describeGroup', async () => {
    const { state, protocolType, protocol, members } = await consumer.describeGroup()
    return [state, protocolType, protocol, members.length]
  })
  await commits(kafka, calls, consumer)
  await pauses(calls, consumer, seen)
  await share(kafka, calls, settings, joined)
  await calls.call('stop', () => consumer.stop())
  await calls.call('disconnect', () => consumer.disconnect())
  await transform(kafka, calls)
  calls.print(consumer, { events: NO_REQUEST, logger: NO_REQUEST })
}

async function commits(kafka, calls, consumer) {
  const admin = kafka.admin()
  await admin.connect()
  await calls.call('commitOffsets', () =>
    consumer.commitOffsets([{ topic: SOURCE, partition: 0, offset: '2', metadata: 'seen' }]))
  await calls.call('commitOffsets/read', async () => {
    const [{ partitions }] = await admin.fetchOffsets({ groupId: 'js-group', topics: [SOURCE] })
    const { offset, metadata } = partitions.find(one => one.partition === 0)
    return [offset, metadata]
  })
  await admin.disconnect()
}

async function pauses(calls, consumer, seen) {
  seen.length = 0
  await calls.call('seek', async () => {
    consumer.seek({ topic: SOURCE, partition: 0, offset: '1' })
    await until(() => seen.length >= 1, 'the message again')
    return seen.slice()
  })
  await calls.call('pause', () => consumer.pause([{ topic: SOURCE, partitions: [1] }]))
  await calls.call('paused', () => consumer.paused())
  seen.length = 0
  await calls.call('pause/nothing comes', async () => {
    consumer.seek({ topic: SOURCE, partition: 1, offset: '0' })
    await sleep(300)
    return seen.length
  })
  await calls.call('resume', async () => {
    consumer.resume([{ topic: SOURCE, partitions: [1] }])
    await until(() => seen.length >= 2, 'messages after the pause')
    return seen.slice()
  })
}

// Another member joins the group and leaves it again.
async function share(kafka, calls, settings, joined) {
  const second = kafka.consumer({ ...settings, partitionAssigners: [PartitionAssigners.roundRobin] })
  await second.connect()
  await second.subscribe({ topics: [SOURCE] })
  joined.length = 0
  await calls.call('run/second member', async () => {
    await second.run({ autoCommit: false, eachMessage: async () => {} })
    await until(() => joined.some(partitions => partitions?.length === 1), 'a partition each')
  })
  joined.length = 0
  await calls.call('disconnect/second member', async () => {
    await second.disconnect()
    await until(() => joined.some(partitions => partitions?.length === 2), 'both partitions again')
  })
}

// Copies a topic, each batch in one transaction with the offsets of what was read.
async function transform(kafka, calls) {
  const groupId = 'js-transform'
  const producer = kafka.producer({ transactionalId: 'js-transform', maxInFlightRequests: 1, idempotent: true })
  const consumer = kafka.consumer({ groupId, maxWaitTimeInMs: 100 })
  await producer.connect()
  await consumer.connect()
  await consumer.subscribe({ topics: [SOURCE], fromBeginning: true })
  let copied = 0
  await consumer.run({
    autoCommit: false,
    eachBatch: async ({ batch }) => {
      const transaction = await producer.transaction()
      const messages = batch.messages.map(({ value }) => ({ partition: 0, value: `copy of ${value}` }))
      await transaction.send({ topic: COPIES, messages })
      const offset = String(Number(batch.lastOffset()) + 1)
      await transaction.sendOffsets({
        consumerGroupId: groupId, topics: [{ topic: SOURCE, partitions: [{ partition: batch.partition, offset }] }],
      })
      await transaction.commit()
      copied += messages.length
    },
  })
  await calls.call('run/consume-transform-produce', async () => {
    await until(() => copied >= 4, 'four copies')
    await consumer.disconnect()
    await producer.disconnect()
    return read(kafka, COPIES, 'js-copies-readers', false, 4)
  })
}

module.exports = { consume }
