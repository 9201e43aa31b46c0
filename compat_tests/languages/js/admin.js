'use strict'

const { ConfigResourceTypes, ConfigSource } = require('kafkajs')
const { Calls, NO_REQUEST, SECURITY } = require('./calls')

const TOPIC = 'js-admin'
const NOWHERE = 'js-nowhere'
const GROUP = 'js-managed'

async function administer(kafka, impatient) {
  const calls = new Calls('kafkajs.Admin')
  const admin = kafka.admin()
  const other = impatient.admin()
  await other.connect()
  await calls.call('connect', () => admin.connect())
  await calls.call('describeCluster', async () => {
    const { brokers, controller, clusterId } = await admin.describeCluster()
    return [brokers.length, controller, clusterId.length]
  })
  await topics(calls, admin, other)
  await configs(calls, admin)
  await records(kafka, calls, admin)
  await replicas(calls, admin)
  await groups(kafka, calls, admin)
  await calls.call('deleteTopics', () => admin.deleteTopics({ topics: [TOPIC] }))
  await calls.call('deleteTopics/unknown', () => other.deleteTopics({ topics: [NOWHERE] }))
  await other.disconnect()
  await calls.call('disconnect', () => admin.disconnect())
  calls.print(admin, {
    createAcls: SECURITY, deleteAcls: SECURITY, describeAcls: SECURITY,
    events: NO_REQUEST, logger: NO_REQUEST, on: NO_REQUEST,
  })
}

async function topics(calls, admin, other) {
  const topic = {
    topic: TOPIC, numPartitions: 2, replicationFactor: 1, configEntries: [{ name: 'retention.ms', value: '-1' }],
  }
  await calls.call('createTopics/validate', () => admin.createTopics({ topics: [topic], validateOnly: true, waitForLeaders: false }))
  await calls.call('createTopics', () => admin.createTopics({ topics: [topic] }))
  await calls.call('createTopics/exists', () => admin.createTopics({ topics: [topic] }))
  await calls.call('createTopics/unknown broker', () =>
    admin.createTopics({ topics: [{ topic: NOWHERE, replicaAssignment: [{ partition: 0, replicas: [2] }] }] }))
  await calls.call('listTopics', async () => (await admin.listTopics()).includes(TOPIC))
  await calls.call('createPartitions/validate', () =>
    admin.createPartitions({ topicPartitions: [{ topic: TOPIC, count: 3 }], validateOnly: true }))
  await calls.call('createPartitions', () =>
    admin.createPartitions({ topicPartitions: [{ topic: TOPIC, count: 3, assignments: [[1]] }] }))
  await calls.call('createPartitions/fewer', () =>
    admin.createPartitions({ topicPartitions: [{ topic: TOPIC, count: 2 }] }))
  await calls.until('fetchTopicMetadata', [[0, 1, [1], [1]], [1, 1, [1], [1]], [2, 1, [1], [1]]], async () => {
    const [found] = (await admin.fetchTopicMetadata({ topics: [TOPIC] })).topics
    return found.partitions.map(({ partitionId, leader, replicas, isr }) => [partitionId, leader, replicas, isr]).sort()
  })
  await calls.call('fetchTopicMetadata/unknown', () => other.fetchTopicMetadata({ topics: [NOWHERE] }))
}

async function configs(calls, admin) {
  const described = async (type, name, setting) => {
    const { resources } = await admin.describeConfigs({ resources: [{ type, name, configNames: [setting] }] })
    const [{ configValue, configSource }] = resources[0].configEntries
    const source = Object.keys(ConfigSource).find(key => ConfigSource[key] === configSource)
    return [configValue, source]
  }
  const alter = (name, value, validateOnly = false) =>
    admin.alterConfigs({
      validateOnly,
      resources: [{ type: ConfigResourceTypes.TOPIC, name, configEntries: [{ name: 'segment.ms', value }] }],
    })
  const ofTopic = setting => described(ConfigResourceTypes.TOPIC, TOPIC, setting)
  await calls.call('alterConfigs/validate', () => alter(TOPIC, '600000', true))
  await calls.call('describeConfigs/validated', () => ofTopic('segment.ms'))
  await calls.call('alterConfigs', () => alter(TOPIC, '600000'))
  await calls.until('describeConfigs', ['600000', 'TOPIC_CONFIG'], () => ofTopic('segment.ms'))
  await calls.call('describeConfigs/replaced', async () => (await ofTopic('retention.ms'))[1] !== 'TOPIC_CONFIG')
  await calls.call('alterConfigs/invalid', () => alter(TOPIC, 'soon'))
  await calls.call('alterConfigs/unknown topic', () => alter(NOWHERE, '600000'))
  await calls.call('describeConfigs/broker', () => described(ConfigResourceTypes.BROKER, '1', 'message.max.bytes'))
  await calls.call('describeConfigs/unknown topic', () => described(ConfigResourceTypes.TOPIC, NOWHERE, 'segment.ms'))
}

async function records(kafka, calls, admin) {
  const producer = kafka.producer()
  await producer.connect()
  const now = Date.now()
  const messages = [...Array(10).keys()].map(number => ({ partition: 0, value: 'value', timestamp: String(now + number) }))
  await producer.send({ topic: TOPIC, messages })
  await producer.disconnect()
  const first = found => found.find(({ partition }) => partition === 0)
  await calls.call('fetchTopicOffsets', async () => {
    const { offset, high, low } = first(await admin.fetchTopicOffsets(TOPIC))
    return [offset, high, low]
  })
  await calls.call('fetchTopicOffsetsByTimestamp', async () =>
    first(await admin.fetchTopicOffsetsByTimestamp(TOPIC, now + 4)).offset)
  await calls.call('deleteTopicRecords', () =>
    admin.deleteTopicRecords({ topic: TOPIC, partitions: [{ partition: 0, offset: '4' }] }))
  await calls.call('fetchTopicOffsets/deleted', async () => first(await admin.fetchTopicOffsets(TOPIC)).low)
  await calls.call('deleteTopicRecords/beyond the end', () =>
    admin.deleteTopicRecords({ topic: TOPIC, partitions: [{ partition: 0, offset: '40' }] }))
}

async function replicas(calls, admin) {
  const assign = (topic, broker) =>
    admin.alterPartitionReassignments({
      topics: [{ topic, partitionAssignment: [{ partition: 0, replicas: [broker] }] }], timeout: 5_000,
    })
  await calls.call('alterPartitionReassignments', () => assign(TOPIC, 1))
  await calls.call('alterPartitionReassignments/unknown broker', () => assign(TOPIC, 2))
  await calls.call('alterPartitionReassignments/unknown topic', () => assign(NOWHERE, 1))
  await calls.call('listPartitionReassignments', async () =>
    (await admin.listPartitionReassignments({ topics: [{ topic: TOPIC, partitions: [0] }] })).topics.length)
}

async function groups(kafka, calls, admin) {
  const fetched = async () => {
    const [{ partitions }] = await admin.fetchOffsets({ groupId: GROUP, topics: [TOPIC] })
    return partitions.map(({ partition, offset }) => [partition, offset]).sort()
  }
  await calls.call('setOffsets', () =>
    admin.setOffsets({ groupId: GROUP, topic: TOPIC, partitions: [{ partition: 0, offset: '7' }] }))
  await calls.call('fetchOffsets', fetched)
  await calls.call('resetOffsets', () => admin.resetOffsets({ groupId: GROUP, topic: TOPIC, earliest: true }))
  await calls.call('fetchOffsets/reset', fetched)
  const consumer = kafka.consumer({ groupId: GROUP, maxWaitTimeInMs: 100 })
  await consumer.connect()
  await consumer.subscribe({ topics: [TOPIC] })
  const joined = new Promise(resolve => consumer.on(consumer.events.GROUP_JOIN, resolve))
  await consumer.run({ eachMessage: async () => {} })
  await joined
  await calls.call('deleteGroups/in use', () => admin.deleteGroups([GROUP]))
  await calls.call('describeGroups', async () => {
    const { groups: [{ state, protocolType, protocol, members }] } = await admin.describeGroups([GROUP])
    return [state, protocolType, protocol, members.length]
  })
  await consumer.disconnect()
  await calls.call('listGroups', async () =>
    (await admin.listGroups()).groups.filter(({ groupId }) => groupId === GROUP))
  await calls.call('deleteGroups', async () => (await admin.deleteGroups([GROUP])).map(({ errorCode }) => errorCode))
  await calls.call('deleteGroups/unknown', () => admin.deleteGroups([GROUP]))
  await calls.call('describeGroups/unknown', async () => (await admin.describeGroups([GROUP])).groups[0].state)
}

module.exports = { administer }
