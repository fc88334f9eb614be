package postgres

import (
	"testing"

	"github.com/outbox-relay/outbox/operate"
)

func TestTheLargestRefusedRecordOfATopicIsFound(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	s := newStore(t, db)
	exec(t, db, `INSERT INTO outbox.parked_key (source, topic, key_hash, partition_key, lane, id, event_id, event_type, code, reason)
SELECT s.id, v.topic, sha256(convert_to(v.n::text, 'UTF8')), v.n::text, 0, v.n, gen_random_uuid(), 'x', v.code, v.reason FROM outbox.source s, (VALUES
    (1, 'a', 'MESSAGE_TOO_LARGE', 'the record has 999 bytes uncompressed and the topic allows max.message.bytes 900'),
    (2, 'a', 'MESSAGE_TOO_LARGE', 'partition 3 rejected the record of 1001 bytes, sent alone: raise it'),
    (3, 'a', 'MESSAGE_TOO_LARGE', 'who knows'),
    (4, 'a', 'INVALID_RECORD', 'it has 5000 bytes'),
    (5, 'b', 'MESSAGE_TOO_LARGE', 'who knows'),
    (6, 'c', 'MESSAGE_TOO_LARGE', 'it has 77 bytes'),
    (7, 'd', 'MESSAGE_TOO_LARGE', 'the dead-letter topic dead.d does not take it: MESSAGE_TOO_LARGE: the record has 2571 bytes; when it does, let it go on; why it is to go there: the record has 2400 bytes'),
    (8, 'd', 'INVALID_RECORD', 'the dead-letter topic dead.d does not take it: MESSAGE_TOO_LARGE: the record has 2600 bytes; when it does, let it go on; why it is to go there: it has 9999 bytes'),
    (9, 'e', 'MESSAGE_TOO_LARGE', 'the dead-letter topic dead.e does not take it: TOPIC_AUTHORIZATION_FAILED: no; when it does, let it go on; why it is to go there: the record has 55 bytes')) v(n, topic, code, reason)`)
	exec(t, db, `INSERT INTO outbox.dead_event (source, id, event_id, topic, partition_key, lane, event, code, reason, died_by)
SELECT s.id, v.n, gen_random_uuid(), 'a', 'k', 0, '{}', v.code, v.reason, 'me' FROM outbox.source s, (VALUES (1, 'MESSAGE_TOO_LARGE', 'it has 5 bytes'), (2, 'DEAD', 'it has 9 bytes'),
    (3, 'SKIPPED', 'too old; its key was parked: MESSAGE_TOO_LARGE: it has 8 bytes')) v(n, code, reason)`)
	found, _, err := s.Find(t.Context(), []operate.Ref{{ID: 1}, {ID: 2}, {ID: 3}})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "why they had failed", []string{found[0].Code, found[1].Code, found[2].Code}, []string{"MESSAGE_TOO_LARGE", "DEAD", "MESSAGE_TOO_LARGE"})
	parked := []operate.TopicSize{{Topic: "a", Bytes: 1001}, {Topic: "d", Bytes: 2400}, {Topic: "dead.d", Bytes: 2600}, {Topic: "e", Bytes: 55}}
	for verb, want := range map[operate.Verb][]operate.TopicSize{
		operate.VerbRetry: parked, operate.VerbUnpark: parked, operate.VerbRestore: {{Topic: "a", Bytes: 8}},
	} {
		found, err := s.LargestOf(t.Context(), verb, []string{"a", "b", "d", "e"})
		if err != nil {
			t.Fatal(err)
		}
		same(t, string(verb), found, want)
	}
}
