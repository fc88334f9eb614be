-- The relay's own state: which tables are relayed, who may publish them, and what went wrong. Nothing here is needed to write an event.
CREATE TABLE outbox.source (
    id                 uuid        PRIMARY KEY DEFAULT gen_random_uuid(),
    table_schema       text        NOT NULL,
    table_name         text        NOT NULL,
    lanes              integer     NOT NULL DEFAULT 8 CHECK (lanes BETWEEN 1 AND 1024),
    delivery           text        NOT NULL DEFAULT 'at-least-once' CHECK (delivery IN ('at-least-once', 'exactly-once')),
    created_at         timestamptz NOT NULL DEFAULT now(),
    first_published_at timestamptz,
    UNIQUE (table_schema, table_name)
);
COMMENT ON TABLE outbox.source IS 'An outbox table that is relayed.';
COMMENT ON COLUMN outbox.source.first_published_at IS 'When the first event was published; until then a missing topic stops the relay.';

CREATE TABLE outbox.relay (
    source     uuid        NOT NULL REFERENCES outbox.source ON DELETE CASCADE,
    owner      uuid        NOT NULL,
    name       text        NOT NULL,
    version    text        NOT NULL,
    mode       text        NOT NULL DEFAULT 'leased' CHECK (mode IN ('leased', 'competing')),
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    seen_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (source, owner)
);
COMMENT ON TABLE outbox.relay IS 'The relay processes that were seen, working or waiting: alive until expires_at by this database''s clock.';
COMMENT ON COLUMN outbox.relay.mode IS 'A leased relay owns lanes; a competing one locks rows, and keeps leased ones out until expires_at.';

CREATE TABLE outbox.lane (
    source              uuid    NOT NULL REFERENCES outbox.source ON DELETE CASCADE,
    lane                integer NOT NULL CHECK (lane >= 0),
    epoch               bigint  NOT NULL DEFAULT 0,
    owner               uuid,
    expires_at          timestamptz,
    intent_id           uuid,
    previous_intent_id  uuid,
    intent_ids          bigint[],
    intent_event_ids    uuid[],
    PRIMARY KEY (source, lane),
    CHECK ((owner IS NULL) = (expires_at IS NULL)),
    CHECK ((intent_id IS NULL) = (intent_ids IS NULL) AND (intent_ids IS NULL) = (intent_event_ids IS NULL))
) WITH (fillfactor = 50);
COMMENT ON TABLE outbox.lane IS 'The leases: a lane is owned until expires_at by this database''s clock; the epoch rises with every change of owner.';
COMMENT ON COLUMN outbox.lane.intent_id IS 'Exactly-once delivery: the window that is being published.';

CREATE TABLE outbox.parked_key (
    source        uuid        NOT NULL REFERENCES outbox.source ON DELETE CASCADE,
    topic         text        NOT NULL,
    key_hash      bytea       NOT NULL,
    partition_key text        NOT NULL,
    lane          integer     NOT NULL,
    id            bigint      NOT NULL,
    event_id      uuid        NOT NULL,
    event_type    text        NOT NULL,
    code          text        NOT NULL,
    reason        text        NOT NULL,
    parked_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (source, key_hash)
);
COMMENT ON TABLE outbox.parked_key IS 'Keys that wait for an operator, each with the event that stops it.';
COMMENT ON COLUMN outbox.parked_key.key_hash IS 'sha256 of the topic, a zero byte and the partition key: in a row they may be longer than an index entry.';

CREATE TABLE outbox.held_topic (
    source  uuid        NOT NULL,
    owner   uuid        NOT NULL,
    topic   text        NOT NULL,
    code    text        NOT NULL,
    reason  text        NOT NULL,
    held_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (source, owner, topic),
    FOREIGN KEY (source, owner) REFERENCES outbox.relay ON DELETE CASCADE
);
COMMENT ON TABLE outbox.held_topic IS 'Topics that cannot be published to, as each relay sees them; what a relay wrote goes with its registration.';

CREATE TABLE outbox.failure (
    source          uuid        NOT NULL REFERENCES outbox.source ON DELETE CASCADE,
    id              bigint      NOT NULL,
    event_id        uuid        NOT NULL,
    topic           text        NOT NULL,
    partition_key   text        NOT NULL,
    lane            integer     NOT NULL,
    attempts        integer     NOT NULL DEFAULT 0,
    first_error     text,
    last_error      text,
    first_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    next_attempt_at timestamptz,
    PRIMARY KEY (source, id, event_id)
);
COMMENT ON TABLE outbox.failure IS 'What was tried with an event that could not be published; outages are not counted.';

CREATE TABLE outbox.dead_event (
    source        uuid        NOT NULL REFERENCES outbox.source ON DELETE CASCADE,
    id            bigint      NOT NULL,
    event_id      uuid        NOT NULL,
    topic         text        NOT NULL,
    partition_key text        NOT NULL,
    lane          integer     NOT NULL,
    event         jsonb       NOT NULL,
    code          text        NOT NULL,
    reason        text        NOT NULL,
    attempts      integer     NOT NULL DEFAULT 0,
    died_by       text        NOT NULL,
    died_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (source, id, event_id)
);
COMMENT ON TABLE outbox.dead_event IS 'Events that were given up, kept whole: the row as to_jsonb gives it.';

CREATE TABLE outbox.released (
    source      uuid        NOT NULL REFERENCES outbox.source ON DELETE CASCADE,
    id          bigint      NOT NULL,
    event_id    uuid        NOT NULL,
    released_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (source, id, event_id)
);
COMMENT ON TABLE outbox.released IS 'Dead events that came back to the outbox table under their old id: the reader has to look at them again.';

CREATE TABLE outbox.request (
    id            bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source        uuid        NOT NULL REFERENCES outbox.source ON DELETE CASCADE,
    verb          text        NOT NULL,
    topic         text        NOT NULL,
    partition_key text        NOT NULL,
    arguments     jsonb       NOT NULL DEFAULT '{}',
    requested_by  text        NOT NULL,
    reason        text        NOT NULL DEFAULT '',
    requested_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    done_at       timestamptz,
    outcome       text,
    error         text
);
CREATE INDEX request_open ON outbox.request (source, id) WHERE done_at IS NULL;
COMMENT ON TABLE outbox.request IS 'What operators ask for; the owner of the lane carries it out when nothing of the key is in flight.';
