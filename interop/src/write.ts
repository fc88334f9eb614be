// Confirms the orders named on standard input, one a line, through TypeORM; those of lines that begin with "rollback " are confirmed
// in a transaction that fails afterwards. With --synchronize TypeORM makes the tables first.
// DATABASE_URL names the database, TOPIC the events' topic.
import 'reflect-metadata';
import { readFileSync } from 'node:fs';
import { DataSource } from 'typeorm';
import { ConfirmOrderHandler } from './confirm-order.handler.js';
import { OrderEntity } from './order.entity.js';
import { OutboxEventEntity } from './outbox-event.entity.js';

const rollbackMark = 'rollback ';

class RolledBack extends Error {}

async function confirmAndFail(dataSource: DataSource, handler: ConfirmOrderHandler, orderId: string): Promise<void> {
  try {
    await dataSource.transaction(async (manager) => {
      await handler.confirm(manager, { orderId });
      throw new RolledBack();
    });
  } catch (err) {
    if (!(err instanceof RolledBack)) throw err;
  }
}

async function confirmLine(dataSource: DataSource, handler: ConfirmOrderHandler, line: string): Promise<void> {
  const fails = line.startsWith(rollbackMark);
  const id = fails ? line.slice(rollbackMark.length) : line;
  await dataSource.getRepository(OrderEntity).upsert(
    { id, customerId: `customer of ${id}`, totalAmount: '100.10', status: 'NEW', confirmedAt: null },
    ['id'],
  );
  if (fails) await confirmAndFail(dataSource, handler, id);
  else await handler.handle({ orderId: id });
}

async function main(): Promise<void> {
  const dataSource = await new DataSource({
    type: 'postgres',
    url: process.env.DATABASE_URL,
    entities: [OrderEntity, OutboxEventEntity],
    synchronize: process.argv.includes('--synchronize'),
  }).initialize();
  const handler = new ConfirmOrderHandler(dataSource, process.env.TOPIC ?? 'order-service.order.confirmed');
  const lines = readFileSync(0, 'utf8').split('\n').filter((line) => line !== '');
  for (const line of lines) await confirmLine(dataSource, handler, line);
  await dataSource.destroy();
}

main().catch((err) => {
  console.error(err);
  process.exit(1);
});
