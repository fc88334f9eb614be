// Reads the topic named on the command line from its beginning to where it ends now, with kafkajs, and prints each record as a line of JSON.
// KAFKA_BROKERS names the brokers.
import { Kafka, type KafkaMessage, Partitioners, type PartitionMetadata, logLevel } from 'kafkajs';

const kafka = new Kafka({
  clientId: 'outbox-interop',
  brokers: (process.env.KAFKA_BROKERS ?? '').split(','),
  logLevel: logLevel.ERROR,
});

interface Topic {
  records: number;
  partitions: PartitionMetadata[];
}

async function describe(topic: string): Promise<Topic> {
  const admin = kafka.admin();
  await admin.connect();
  const offsets = await admin.fetchTopicOffsets(topic);
  const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
  await admin.disconnect();
  return {
    records: offsets.reduce((sum, p) => sum + Number(p.high) - Number(p.low), 0),
    partitions: topics[0].partitions,
  };
}

const partitionOf = Partitioners.DefaultPartitioner();

function print(topic: string, partitionMetadata: PartitionMetadata[], partition: number, message: KafkaMessage): void {
  const text = message.value!.toString('utf8');
  const headers = Object.entries(message.headers ?? {}).map(([name, value]) => [name, value!.toString('utf8')]);
  console.log(JSON.stringify({
    partition,
    // Where a producer of kafkajs would have put it.
    kafkajsPartition: partitionOf({ topic, partitionMetadata, message }),
    offset: Number(message.offset),
    key: message.key!.toString('utf8'),
    headers,
    text,
    parsed: JSON.stringify(JSON.parse(text)),
  }));
}

async function main(): Promise<void> {
  const topic = process.argv[2];
  const { records, partitions } = await describe(topic);
  let missing = records;
  if (missing === 0) return;
  const consumer = kafka.consumer({ groupId: `outbox-interop-${process.pid}` });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await new Promise<void>((resolve, reject) => {
    // One that kafkajs restarts by itself is no failure: a broker is still loading its groups, say.
    consumer.on('consumer.crash', ({ payload }) => {
      if (!payload.restart) reject(payload.error);
    });
    consumer.run({
      eachMessage: async ({ partition, message }) => {
        print(topic, partitions, partition, message);
        if (--missing === 0) resolve();
      },
    }).catch(reject);
  });
  await consumer.disconnect();
}

main().catch((err) => {
  console.error(err);
  process.exit(1);
});
