-- A key may stop the aggregate of its event in other keys, and a key may wait for such a one.
ALTER TABLE outbox.parked_key ADD COLUMN aggregate_type text, ADD COLUMN aggregate_id text;
COMMENT ON COLUMN outbox.parked_key.aggregate_type IS 'With aggregate_id, what stops with the key; of a key with code AGGREGATE_PARKED, what the key waits for. NULL where only the key is parked.';
-- Relays read all that is stopped; by one aggregate it is looked for by the hash, for a name may be longer than an index entry.
CREATE INDEX parked_key_root ON outbox.parked_key (source, id, event_id) WHERE aggregate_type IS NOT NULL AND code <> 'AGGREGATE_PARKED';
CREATE INDEX parked_key_aggregate ON outbox.parked_key (source, hashtextextended(aggregate_id COLLATE "C", 0))
    WHERE aggregate_type IS NOT NULL AND code <> 'AGGREGATE_PARKED';
