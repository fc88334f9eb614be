-- The receiving side: which events a consumer has handled, and which records it cannot handle.
-- Who writes to outbox.inbox sees to the lengths: the server would read and compile a CHECK anew for each statement, which costs more than the second index.
CREATE TABLE outbox.inbox (
    consumer   text        COLLATE "C" NOT NULL,
    event_id   text        COLLATE "C" NOT NULL,
    handled_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (consumer, event_id)
);
COMMENT ON TABLE outbox.inbox IS 'What each consumer has handled: a row is committed with what its handler wrote.';
CREATE INDEX inbox_handled_at ON outbox.inbox (consumer, handled_at);

CREATE TABLE outbox.inbox_failure (
    consumer        text        COLLATE "C" NOT NULL,
    topic           text        NOT NULL,
    partition       integer     NOT NULL,
    record_offset   bigint      NOT NULL,
    event_id        text        NOT NULL,
    event_type      text        NOT NULL,
    attempts        integer     NOT NULL DEFAULT 1,
    first_error     text        NOT NULL,
    last_error      text        NOT NULL,
    first_failed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_failed_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (consumer, topic, partition, record_offset)
);
COMMENT ON TABLE outbox.inbox_failure IS 'Records that a consumer could not handle, with how often it has tried: a row goes when its record is handled or sent on.';

CREATE TABLE outbox.redriven (
    topic         text        COLLATE "C" NOT NULL,
    partition     integer     NOT NULL,
    record_offset bigint      NOT NULL,
    record_at     timestamptz NOT NULL,
    at            timestamptz NOT NULL DEFAULT clock_timestamp(),
    by            text        NOT NULL,
    PRIMARY KEY (topic, partition, record_offset)
);
COMMENT ON TABLE outbox.redriven IS 'Dead letters that were sent back: written after Kafka has acknowledged them, deleted when their records are gone.';
COMMENT ON COLUMN outbox.redriven.record_at IS 'The time of the record: one of another time at this offset is another one, of a topic that was made anew.';
