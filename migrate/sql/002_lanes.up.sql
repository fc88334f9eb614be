-- The lane of a key is another one from here on: a hash that costs next to nothing for each row that a relay passes.
UPDATE outbox.parked_key k SET lane = ((hashtextextended(k.partition_key COLLATE "C", 0) & 4294967295) % s.lanes)::integer FROM outbox.source s WHERE s.id = k.source;
UPDATE outbox.dead_event k SET lane = ((hashtextextended(k.partition_key COLLATE "C", 0) & 4294967295) % s.lanes)::integer FROM outbox.source s WHERE s.id = k.source;
UPDATE outbox.failure k SET lane = ((hashtextextended(k.partition_key COLLATE "C", 0) & 4294967295) % s.lanes)::integer FROM outbox.source s WHERE s.id = k.source;
