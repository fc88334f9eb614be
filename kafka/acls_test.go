package kafka

import (
	"slices"
	"testing"
)

func TestRulesAreCommandsThatAShellTakes(t *testing.T) {
	t.Parallel()
	var got []string
	for _, rule := range append(RelayACLs([]string{"b", "a", "a"}, true), LetterACLs([]string{"a-dlt"}, []string{"a"})...) {
		got = append(got, rule.Command("k-1:9093,k-2:9093", "User:CN=relay, O=Shop's"))
	}
	const allow = `kafka-acls.sh --bootstrap-server k-1:9093,k-2:9093 --add --allow-principal 'User:CN=relay, O=Shop'\''s'`
	want := []string{
		allow + " --operation Write --operation DescribeConfigs --operation Create --topic a --topic b",
		allow + " --operation Read --operation Delete --topic a-dlt",
		allow + " --operation Write --operation DescribeConfigs --topic a",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if rules := RelayACLs(nil, true); rules != nil {
		t.Errorf("without topics got %v", rules)
	}
}
