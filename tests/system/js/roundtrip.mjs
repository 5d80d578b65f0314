// mqtt.js against a broker: node roundtrip.mjs URL VERSION(3|4|5). Prints one line per step, exits 0 when all is well.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import mqtt from 'mqtt'

const [url, version] = [process.argv[2], Number(process.argv[3])]
const name = `js-${randomBytes(5).toString('hex')}`
const five = version === 5
const patience = setTimeout(() => { console.error('timed out'); process.exit(1) }, 20000)

const dialect = version === 3 ? { protocolId: 'MQIsdp', protocolVersion: 3 } : { protocolVersion: version }

async function open(id, more = {}) {
  const client = mqtt.connect(url, { clientId: id, reconnectPeriod: 0, connectTimeout: 10000, ...dialect, ...more })
  client.on('error', (error) => { console.error(id, error); process.exit(1) })
  client.inbox = []
  client.on('message', (topic, payload, packet) => {
    client.inbox.push({ topic, payload: payload.toString(), packet })
    client.emit('inbox')
  })
  const [connack] = await once(client, 'connect')
  return Object.assign(client, { connack })
}

async function take(client, count) {
  while (client.inbox.length < count) await once(client, 'inbox')
  return client.inbox.splice(0, count)
}

const durable = { clean: false, ...(five ? { properties: { sessionExpiryInterval: 600 } } : {}) }
const step = (text) => console.log(`ok ${text}`)
const range = (count) => Array.from({ length: count }, (_, index) => String(index))

const client = await open(name)
await client.subscribeAsync(`js/${name}/#`, { qos: 2 })
for (const qos of [0, 1, 2]) {
  for (const number of range(10)) await client.publishAsync(`js/${name}/${qos}`, number, { qos })
  const messages = await take(client, 10)
  assert.deepEqual(messages.map((message) => message.payload), range(10))
  assert.ok(messages.every((message) => message.packet.qos === qos && message.topic === `js/${name}/${qos}`))
  step(`publish and subscribe at QoS ${qos}`)
}

const large = randomBytes(150000).toString('hex')
await client.publishAsync(`js/${name}/large`, large, { qos: 1 })
assert.equal((await take(client, 1))[0].payload, large)
step('a message of 300 kB')

await client.publishAsync(`js/${name}/kept`, 'kept', { qos: 1, retain: true })
await take(client, 1)
const late = await open(`${name}-late`)
await late.subscribeAsync(`js/${name}/kept`, { qos: 1 })
const [kept] = await take(late, 1)
assert.deepEqual([kept.payload, kept.packet.retain], ['kept', true])
await client.publishAsync(`js/${name}/kept`, '', { qos: 1, retain: true })
await take(client, 1)
await take(late, 1) // or its acknowledgement would be written behind the end
await late.endAsync()
step('retained')

const mortal = await open(`${name}-mortal`, { will: { topic: `js/${name}/will`, payload: 'gone', qos: 1 } })
mortal.stream.destroy()
assert.equal((await take(client, 1))[0].payload, 'gone')
step('will')

let sleeper = await open(`${name}-sleeper`, durable)
assert.equal(sleeper.connack.sessionPresent, false)
await sleeper.subscribeAsync(`js/${name}/queue`, { qos: 1 })
await sleeper.endAsync()
for (const number of range(20)) await client.publishAsync(`js/${name}/queue`, number, { qos: 1 })
await take(client, 20)
sleeper = await open(`${name}-sleeper`, durable)
assert.ok(sleeper.connack.sessionPresent || version === 3)
assert.deepEqual((await take(sleeper, 20)).map((message) => message.payload), range(20))
await sleeper.endAsync()
await (await open(`${name}-sleeper`)).endAsync()
step('reconnect with session')

if (five) {
  await client.subscribeAsync(`js5/${name}`, { qos: 1, properties: { subscriptionIdentifier: 9 } })
  const properties = {
    userProperties: { colour: ['red', 'blue'] },
    contentType: 'text/plain',
    responseTopic: 'answers',
    correlationData: Buffer.from([0, 1, 255]),
    payloadFormatIndicator: true
  }
  await client.publishAsync(`js5/${name}`, 'x', { qos: 1, properties })
  const got = (await take(client, 1))[0].packet.properties
  assert.deepEqual({ ...got.userProperties }, properties.userProperties)
  assert.deepEqual(
    [got.contentType, got.responseTopic, [...got.correlationData], got.payloadFormatIndicator, got.subscriptionIdentifier],
    ['text/plain', 'answers', [0, 1, 255], true, 9]
  )
  step('v5 properties')
}

await client.endAsync()
clearTimeout(patience)
