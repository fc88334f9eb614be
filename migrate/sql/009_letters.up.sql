-- Where a dead event is in Kafka, so that people find it there, and hear of it before they restore it.
ALTER TABLE outbox.dead_event ADD COLUMN letter_topic text, ADD COLUMN letter_partition integer, ADD COLUMN letter_offset bigint;
COMMENT ON COLUMN outbox.dead_event.letter_topic IS 'The dead-letter topic that the event was sent to; NULL when it was sent to none, or nobody knows.';
COMMENT ON COLUMN outbox.dead_event.letter_offset IS 'Where it is in its partition; NULL when the broker did not tell.';
