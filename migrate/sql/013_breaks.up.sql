-- Programs of before learn from this column that they must keep away: they know nothing else of a migration that is newer than they are.
ALTER TABLE outbox.migration ADD COLUMN breaks boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN outbox.migration.breaks IS 'A program that does not know this migration cannot work with the schema after it.';
