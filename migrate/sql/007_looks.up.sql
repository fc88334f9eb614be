-- Operators look through parked keys and dead events in the order of their ids, page by page, and for one dead event by its event id.
CREATE INDEX parked_key_id ON outbox.parked_key (source, id, event_id);
CREATE INDEX dead_event_event_id ON outbox.dead_event (source, event_id);
CREATE INDEX audit_source ON outbox.audit (source, id);
CREATE INDEX job_source ON outbox.job (source, id);
