'use strict'

const { Calls, NO_REQUEST } = require('./calls')

const SOURCE = 'js-source'
const TARGET = 'js-target'

async function produce(kafka, impatient, admin) {
  const calls = new Calls('kafkajs.Producer')
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
  await calls.call('connect', () => producer.connect())
  await calls.call('isIdempotent', () => producer.isIdempotent())
  await calls.call('send', async () => {
    const messages = [
      { partition: 0, key: 'key', value: 'one', headers: { trace: '1' } },
      { partition: 0, key: 'key', value: null },
      { partition: 1, value: 'two' },
    ]
    return offsets(await producer.send({ topic: SOURCE, acks: -1, messages }))
  })
  await calls.call('sendBatch', async () => {
    const messages = [{ partition: 1, value: 'three' }]
    return offsets(await producer.sendBatch({ acks: -1, topicMessages: [{ topic: SOURCE, messages }] }))
  })
  await calls.call('send/unknown topic', async () => {
    const other = impatient.producer()
    await other.connect()
    try {
      await other.send({ topic: 'js-nowhere', messages: [{ value: 'one' }] })
    } finally {
      await other.disconnect()
    }
  })
  await calls.call('disconnect', () => producer.disconnect())
  await transactions(kafka, admin, calls)
  calls.print(producer, { events: NO_REQUEST, logger: NO_REQUEST, on: NO_REQUEST })
}

// Partition and first offset of each answer.
function offsets(metadata) {
  return metadata.map(({ partition, baseOffset }) => [partition, Number(baseOffset)]).sort()
}

async function transactions(kafka, admin, calls) {
  const settings = { transactionalId: 'js-transactions', maxInFlightRequests: 1, idempotent: true, transactionTimeout: 40_000 }
  const producer = kafka.producer(settings)
  await producer.connect()
  const of = new Calls('kafkajs.Transaction')
  const send = (transaction, value) =>
    transaction.send({ topic: TARGET, messages: [{ partition: 0, value }] })

  let transaction
  await calls.call('transaction', async () => {
    transaction = await producer.transaction()
  })
  await of.call('send', async () => offsets(await send(transaction, 'committed')))
  await of.call('sendBatch', async () =>
    offsets(await transaction.sendBatch({ topicMessages: [{ topic: TARGET, messages: [{ partition: 1, value: 'batch' }] }] })))
  await of.call('isActive', () => transaction.isActive())
  await of.call('sendOffsets', () =>
    transaction.sendOffsets({
      consumerGroupId: 'js-offsets', topics: [{ topic: SOURCE, partitions: [{ partition: 0, offset: '2' }] }],
    }))
  await of.call('commit', () => transaction.commit())
  await of.call('isActive/ended', () => transaction.isActive())
  await of.until('sendOffsets/committed', '2', async () => {
    const [{ partitions }] = await admin.fetchOffsets({ groupId: 'js-offsets', topics: [SOURCE] })
    return partitions.find(one => one.partition === 0).offset
  })
  const aborted = await producer.transaction()
  await send(aborted, 'aborted')
  await of.call('abort', () => aborted.abort())
  const empty = await producer.transaction()
  await of.call('commit/empty', () => empty.commit())

  const fenced = await producer.transaction()
  await send(fenced, 'of one that is fenced')
  const successor = kafka.producer(settings)
  await successor.connect()
  const next = await successor.transaction()
  await send(next, 'successor')
  await next.commit()
  await of.call('send/fenced', () => send(fenced, 'late'))
  await of.call('commit/fenced', () => fenced.commit())
  of.print(transaction)
  await Promise.all([producer.disconnect(), successor.disconnect()])
}

module.exports = { produce }
