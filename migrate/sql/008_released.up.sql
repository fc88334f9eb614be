-- A restored event is found by whoever carries the request out: nobody has to be told of it by a table.
DROP TABLE outbox.released;
