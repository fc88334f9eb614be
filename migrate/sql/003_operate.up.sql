-- What operators do, and what becomes of it.
CREATE TABLE outbox.audit (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source     uuid        NOT NULL REFERENCES outbox.source ON DELETE CASCADE,
    at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor      text        NOT NULL,
    verb       text        NOT NULL,
    filter     jsonb       NOT NULL DEFAULT '{}',
    reason     text        NOT NULL DEFAULT '',
    job        bigint,
    affected   bigint,
    outcome    text,
    ended_at   timestamptz
);
COMMENT ON TABLE outbox.audit IS 'Every change that somebody asked for: written before it is made, completed after it.';
COMMENT ON COLUMN outbox.audit.affected IS 'How many events, keys or rows were changed; NULL while it goes on, or when it ended without a word.';

CREATE TABLE outbox.job (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source      uuid        NOT NULL REFERENCES outbox.source ON DELETE CASCADE,
    verb        text        NOT NULL,
    filter      jsonb       NOT NULL DEFAULT '{}',
    actor       text        NOT NULL,
    reason      text        NOT NULL DEFAULT '',
    total       bigint      NOT NULL,
    done        bigint      NOT NULL DEFAULT 0,
    failed      bigint      NOT NULL DEFAULT 0,
    state       text        NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'done', 'cancelled', 'failed')),
    note        text        NOT NULL DEFAULT '',
    started_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    seen_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at    timestamptz
);
COMMENT ON TABLE outbox.job IS 'Changes of many events or keys, with how far they are.';

-- A request names a key, and where it concerns one event of it, the event.
ALTER TABLE outbox.request ADD COLUMN event_id uuid, ADD COLUMN id_of_event bigint, ADD COLUMN job bigint;
CREATE INDEX request_job ON outbox.request (job) WHERE job IS NOT NULL;

CREATE TABLE outbox.pause (
    source        uuid        NOT NULL REFERENCES outbox.source ON DELETE CASCADE,
    scope         text        NOT NULL CHECK (scope IN ('source', 'topic', 'key')),
    topic         text        NOT NULL DEFAULT '',
    key_hash      bytea       NOT NULL DEFAULT '',
    partition_key text        NOT NULL DEFAULT '',
    paused_by     text        NOT NULL,
    reason        text        NOT NULL DEFAULT '',
    paused_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (source, scope, topic, key_hash)
);
COMMENT ON TABLE outbox.pause IS 'What operators have paused; relays look at it each time they look at the lanes.';
