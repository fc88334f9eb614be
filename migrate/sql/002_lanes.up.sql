-- The lane of a key is another one from here on: a hash that costs next to nothing for each row that a relay passes.
DO $$
DECLARE
    state text;
BEGIN
    FOREACH state IN ARRAY ARRAY['parked_key', 'dead_event', 'failure'] LOOP
        EXECUTE format($sql$
            UPDATE outbox.%I k SET lane = ((hashtextextended(CASE WHEN getdatabaseencoding() IN ('UTF8', 'SQL_ASCII') THEN k.partition_key
                ELSE convert_from(convert_to(k.partition_key, 'UTF8'), 'SQL_ASCII') END COLLATE "C", 0) & 4294967295) %% s.lanes)::integer
            FROM outbox.source s WHERE s.id = k.source AND s.lanes > 1$sql$, state);
    END LOOP;
END $$;
