import { Inject, Injectable } from '@nestjs/common';
import { Interval } from '@nestjs/schedule';
import type { Producer } from 'kafkajs';
import { DataSource } from 'typeorm';
import { OutboxEventEntity } from './outbox-event.entity.js';

export const KAFKA_PRODUCER = 'KAFKA_PRODUCER';

// The relay of a service, as services have it: it locks a batch, publishes it while the transaction is open, and marks it.
@Injectable()
export class OutboxRelayService {
  constructor(
    @Inject(DataSource) private readonly dataSource: DataSource,
    @Inject(KAFKA_PRODUCER) private readonly producer: Producer,
  ) {}

  @Interval(Number(process.env.RELAY_INTERVAL ?? 500))
  async publish(): Promise<void> {
    await this.dataSource.transaction(async (manager) => {
      const events = await manager
        .getRepository(OutboxEventEntity)
        .createQueryBuilder('e')
        .setLock('pessimistic_write')
        .setOnLocked('skip_locked')
        .where('e.publishedAt IS NULL')
        .orderBy('e.id', 'ASC')
        .take(50)
        .getMany();

      if (!events.length) return;

      for (const [topic, batch] of groupByTopic(events)) {
        await this.producer.send({
          topic,
          acks: -1,
          messages: batch.map((e) => ({
            key: e.partitionKey,
            value: JSON.stringify(e.payload),
            headers: { 'x-event-id': e.eventId, 'x-event-type': e.eventType },
          })),
        });
      }

      await manager.update(
        OutboxEventEntity,
        events.map((e) => e.id),
        { publishedAt: new Date() },
      );
    });
  }
}

// Map.groupBy came with Node.js 21.
function groupByTopic(events: OutboxEventEntity[]): Map<string, OutboxEventEntity[]> {
  const byTopic = new Map<string, OutboxEventEntity[]>();
  for (const e of events) {
    const batch = byTopic.get(e.topic);
    if (batch) batch.push(e);
    else byTopic.set(e.topic, [e]);
  }
  return byTopic;
}
