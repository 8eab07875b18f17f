// The JavaScript client @kafkajs/confluent-schema-registry: registers, encodes and decodes, and prints what it got.
const { SchemaRegistry, SchemaType, COMPATIBILITY } = require('@kafkajs/confluent-schema-registry')

const record = {
  type: 'record',
  name: 'R',
  namespace: 'n',
  fields: [{ name: 'a', type: 'int' }, { name: 'b', type: ['null', 'string'], default: null }],
}

async function main() {
  const registry = new SchemaRegistry({ host: process.argv[2], retry: { retries: 0 } })
  const schema = { type: SchemaType.AVRO, schema: JSON.stringify(record) }
  const found = await registry.register(schema, { subject: 's', compatibility: COMPATIBILITY.FULL })
  const payload = { a: 1, b: 'x' }
  const encoded = await registry.encode(found.id, payload)
  const fresh = new SchemaRegistry({ host: process.argv[2] })
  let refused = null
  try {
    const other = { ...record, fields: [{ name: 'z', type: 'int' }] }
    await registry.register({ type: SchemaType.AVRO, schema: JSON.stringify(other) }, { subject: 's', compatibility: COMPATIBILITY.FULL })
  } catch (error) {
    refused = error.message
  }
  console.log(JSON.stringify({
    id: found.id,
    encoded: encoded.toString('hex'),
    decoded: await fresh.decode(encoded),
    latest: await fresh.getLatestSchemaId('s'),
    byVersion: await fresh.getRegistryId('s', 1),
    bySchema: await fresh.getRegistryIdBySchema('s', schema),
    refused,
  }))
}

main().catch((error) => {
  console.error(error)
  process.exit(1)
})
