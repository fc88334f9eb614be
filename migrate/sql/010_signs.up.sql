-- Signs of life that no row of the outbox table gives: when something was last published, and whether Kafka is silent.
ALTER TABLE outbox.source ADD COLUMN last_published_at timestamptz;
COMMENT ON COLUMN outbox.source.last_published_at IS 'When a relay last published something, to within seconds; NULL while none that writes this down has.';
ALTER TABLE outbox.relay ADD COLUMN silent_since timestamptz;
COMMENT ON COLUMN outbox.relay.silent_since IS 'Since when Kafka answers nothing to this relay; NULL when it answers.';
-- Relays of before may write down what they now know, whatever roles they have.
DO $$
DECLARE
    role regrole;
BEGIN
    FOR role IN
        SELECT DISTINCT x.grantee::regrole FROM pg_attribute a, aclexplode(a.attacl) x
        WHERE a.attrelid = 'outbox.source'::regclass AND a.attname = 'first_published_at' AND x.privilege_type = 'UPDATE' AND x.grantee <> 0
    LOOP
        EXECUTE format('GRANT UPDATE (last_published_at) ON outbox.source TO %s', role);
    END LOOP;
END $$;
