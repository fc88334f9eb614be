-- How many relays have ended while an event was being published, and which events are to be tried again.
ALTER TABLE outbox.failure ADD COLUMN crashes integer NOT NULL DEFAULT 0;
COMMENT ON COLUMN outbox.failure.crashes IS 'Of the attempts, those that were written down before they were made, and whose relay has not come back to say more.';
CREATE INDEX failure_due ON outbox.failure (source, next_attempt_at) WHERE next_attempt_at IS NOT NULL;
