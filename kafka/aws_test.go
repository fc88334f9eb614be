package kafka

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// The signature is made again here, by the rules of AWS Signature Version 4 for a presigned request. No broker of Amazon was asked.
func TestTheSignatureForAmazonIsTheOneOfItsRules(t *testing.T) {
	t.Parallel()
	credentials := AWSCredentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", SessionToken: "a token/with+signs="}
	s := &SASL{Mechanism: MechanismIAM, AWSFunc: func(context.Context) (AWSCredentials, error) { return credentials, nil }}
	const host = "b-1.shop.abc123.c2.kafka.eu-west-1.amazonaws.com"
	_, message, err := s.mechanism(Config{}.withDefaults()).Authenticate(t.Context(), host+":9098")
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := json.Unmarshal(message, &got); err != nil {
		t.Fatal(err)
	}
	date := got["x-amz-date"][:8]
	scope := date + "/eu-west-1/kafka-cluster/aws4_request"
	for name, want := range map[string]string{
		"version": "2020_10_22", "host": host, "action": "kafka-cluster:Connect", "x-amz-algorithm": "AWS4-HMAC-SHA256", "x-amz-credential": "AKIDEXAMPLE/" + scope,
		"x-amz-signedheaders": "host", "x-amz-expires": "900", "x-amz-security-token": credentials.SessionToken,
	} {
		if got[name] != want {
			t.Errorf("%s: got %q, want %q", name, got[name], want)
		}
	}
	query := url.Values{
		"Action": {"kafka-cluster:Connect"}, "X-Amz-Algorithm": {"AWS4-HMAC-SHA256"}, "X-Amz-Credential": {"AKIDEXAMPLE/" + scope}, "X-Amz-Date": {got["x-amz-date"]},
		"X-Amz-Expires": {"900"}, "X-Amz-Security-Token": {credentials.SessionToken}, "X-Amz-SignedHeaders": {"host"},
	}
	empty := sha256.Sum256(nil)
	request := sha256.Sum256([]byte("GET\n/\n" + strings.ReplaceAll(query.Encode(), "+", "%20") + "\nhost:" + host + "\n\nhost\n" + hex.EncodeToString(empty[:])))
	key := []byte("AWS4" + credentials.SecretAccessKey)
	for _, part := range []string{date, "eu-west-1", "kafka-cluster", "aws4_request", "AWS4-HMAC-SHA256\n" + got["x-amz-date"] + "\n" + scope + "\n" + hex.EncodeToString(request[:])} {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(part))
		key = mac.Sum(nil)
	}
	if want := hex.EncodeToString(key); got["x-amz-signature"] != want {
		t.Errorf("signature: got %s, want %s", got["x-amz-signature"], want)
	}
	if strings.Contains(string(message), credentials.SecretAccessKey) || strings.Contains(fmt.Sprintf("%v %+v %#v %v", credentials, credentials, credentials, s), credentials.SecretAccessKey) {
		t.Error("the secret key is shown")
	}
}

func TestAmazonsCredentialsComeFromTheEnvironment(t *testing.T) {
	sasl := &SASL{Mechanism: MechanismIAM}
	t.Setenv("AWS_ACCESS_KEY_ID", "id")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	for _, tls := range []bool{false, true} {
		_, err := NewPublisher(Config{Brokers: []string{"h:1"}, TLS: tls, SASL: sasl})
		if err == nil || !strings.Contains(err.Error(), "AWS_SECRET_ACCESS_KEY is not set") || strings.Contains(err.Error(), "over TLS only") == tls {
			t.Errorf("TLS %t: got %v", tls, err)
		}
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", "key")
	t.Setenv("AWS_SESSION_TOKEN", "token")
	auth, err := sasl.aws(t.Context())
	if err != nil || auth.AccessKey != "id" || auth.SecretKey != "key" || auth.SessionToken != "token" {
		t.Errorf("got %+v, %v", auth, err)
	}
}
