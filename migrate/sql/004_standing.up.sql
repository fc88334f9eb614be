-- What a relay has shown of itself: one that crashes again and again gets no share of the lanes, one that cannot publish leaves its own to one that can.
-- A row that an older relay writes counts in full, as it always did.
ALTER TABLE outbox.relay
    ADD COLUMN standing  smallint NOT NULL DEFAULT 2 CHECK (standing BETWEEN 0 AND 2),
    ADD COLUMN proved_at timestamptz;
COMMENT ON COLUMN outbox.relay.standing IS '0: has registered; 1: was seen again, and is left one lane to be tried with; 2: has worked, and counts when lanes are shared.';
COMMENT ON COLUMN outbox.relay.proved_at IS 'When Kafka last acknowledged something to this relay, or answered it, by this database''s clock.';
