// Every call of KafkaJS that needs no second broker and no security, or work while brokers are killed:
//
//     node main.js BOOTSTRAP
//     node main.js BOOTSTRAP TOPIC COUNT
'use strict'

const { Kafka, logLevel } = require('kafkajs')
const { produce } = require('./producer')
const { consume } = require('./consumer')
const { administer } = require('./admin')
const { failover } = require('./failover')

async function main(bootstrap, topic, count) {
  const settings = { brokers: bootstrap.split(','), clientId: 'kafkajs-calls', logLevel: logLevel.NOTHING }
  const kafka = new Kafka({ ...settings, retry: { initialRetryTime: 50, retries: 10 } })
  if (topic) {
    await failover(kafka, topic, Number(count))
    return
  }
  // for calls that are to fail: by itself the client repeats some of them for a minute
  const impatient = new Kafka({ ...settings, retry: { retries: 1 } })
  const admin = kafka.admin()
  await admin.connect()
  await admin.createTopics({
    topics: ['js-source', 'js-target', 'js-copies'].map(topic => ({ topic, numPartitions: 2, replicationFactor: 1 })),
  })
  await produce(kafka, impatient, admin)
  await consume(kafka)
  await admin.disconnect()
  await administer(kafka, impatient)
}

main(...process.argv.slice(2)).then(
  () => process.exit(0),
  error => {
    console.error(error)
    process.exit(1)
  }
)
