import { DataSource, EntityManager } from 'typeorm';
import { v7 as uuidv7 } from 'uuid';
import { OrderEntity } from './order.entity.js';
import { OutboxEventEntity } from './outbox-event.entity.js';

export interface ConfirmOrderCommand {
  orderId: string;
}

// ConfirmOrderHandler changes an order and writes its event in one transaction.
export class ConfirmOrderHandler {
  constructor(
    private readonly dataSource: DataSource,
    private readonly topic: string,
  ) {}

  async handle(command: ConfirmOrderCommand): Promise<void> {
    await this.dataSource.transaction((manager) => this.confirm(manager, command));
  }

  async confirm(manager: EntityManager, command: ConfirmOrderCommand): Promise<void> {
    const orderRepo = manager.getRepository(OrderEntity);
    const outboxRepo = manager.getRepository(OutboxEventEntity);

    const order = await orderRepo.findOne({
      where: { id: command.orderId },
      lock: { mode: 'pessimistic_write' },
    });
    if (!order) throw new Error(`order ${command.orderId} not found`);

    order.status = 'CONFIRMED';
    order.confirmedAt = new Date();
    await orderRepo.save(order);

    // One id for the row and the payload: consumers that deduplicate by either see the same event.
    const eventId = uuidv7();
    await outboxRepo.save(
      outboxRepo.create({
        eventId,
        aggregateType: 'Order',
        aggregateId: order.id,
        eventType: 'order.confirmed.v1',
        payload: {
          eventId,
          eventType: 'OrderConfirmed.v1',
          occurredAt: new Date().toISOString(),
          aggregateType: 'Order',
          aggregateId: order.id,
          customerId: order.customerId,
          totalAmount: order.totalAmount,
        },
        topic: this.topic,
        partitionKey: order.id,
      }),
    );
  }
}
