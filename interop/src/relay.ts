// Runs the service's own relay until it is killed. DATABASE_URL names the database, KAFKA_BROKERS the brokers, RELAY_INTERVAL the time between two
// batches in milliseconds.
import 'reflect-metadata';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ScheduleModule } from '@nestjs/schedule';
import { TypeOrmModule } from '@nestjs/typeorm';
import { Kafka, type Producer, logLevel } from 'kafkajs';
import { OutboxEventEntity } from './outbox-event.entity.js';
import { KAFKA_PRODUCER, OutboxRelayService } from './outbox-relay.service.js';

async function connectProducer(): Promise<Producer> {
  const kafka = new Kafka({
    clientId: 'order-service',
    brokers: (process.env.KAFKA_BROKERS ?? '').split(','),
    logLevel: logLevel.ERROR,
  });
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 5 });
  await producer.connect();
  return producer;
}

@Module({
  imports: [
    TypeOrmModule.forRoot({ type: 'postgres', url: process.env.DATABASE_URL, entities: [OutboxEventEntity] }),
    ScheduleModule.forRoot(),
  ],
  providers: [{ provide: KAFKA_PRODUCER, useFactory: connectProducer }, OutboxRelayService],
})
class OutboxModule {}

NestFactory.createApplicationContext(OutboxModule, { logger: ['error'] }).catch((err) => {
  console.error(err);
  process.exit(1);
});
