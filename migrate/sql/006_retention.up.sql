-- Who deletes what is old, so that one relay does it, and everybody can see whether anything does.
CREATE TABLE outbox.retention (
    source           uuid        PRIMARY KEY REFERENCES outbox.source ON DELETE CASCADE,
    owner            uuid        NOT NULL,
    name             text        NOT NULL,
    older_than       interval,
    keep             bigint      NOT NULL DEFAULT 0,
    dead_older_than  interval,
    audit_older_than interval,
    expires_at       timestamptz NOT NULL,
    pruned           bigint      NOT NULL DEFAULT 0,
    pruned_at        timestamptz
);
COMMENT ON TABLE outbox.retention IS 'Who deletes settled events and what else is old: on its own until expires_at, or, expired, when it was last done.';
COMMENT ON COLUMN outbox.retention.pruned IS 'How many settled events have been deleted since the first of them.';
