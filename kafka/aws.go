package kafka

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/twmb/franz-go/pkg/sasl/aws"
)

// AWSCredentials are those of an AWS principal. Its String and LogValue leave out what is secret.
type AWSCredentials struct {
	AccessKeyID, SecretAccessKey string
	// SessionToken is of temporary credentials; "" of others.
	SessionToken string
}

// String names the access key.
func (c AWSCredentials) String() string { return c.AccessKeyID + " ***" }

// GoString is String, so that no format prints a secret.
func (c AWSCredentials) GoString() string { return c.String() }

// LogValue is String, for logs.
func (c AWSCredentials) LogValue() slog.Value { return slog.StringValue(c.String()) }

// aws signs for one authentication.
func (s *SASL) aws(ctx context.Context) (aws.Auth, error) {
	ask := s.AWSFunc
	if ask == nil {
		ask = awsFromEnvironment
	}
	c, err := ask(ctx)
	if err != nil {
		return aws.Auth{}, err
	}
	return aws.Auth{AccessKey: c.AccessKeyID, SecretKey: c.SecretAccessKey, SessionToken: c.SessionToken}, nil
}

var errNoAWSCredentials = errors.New("SASL AWS_MSK_IAM: AWS_ACCESS_KEY_ID or AWS_SECRET_ACCESS_KEY is not set: set both, and AWS_SESSION_TOKEN with temporary ones")

func awsFromEnvironment(context.Context) (AWSCredentials, error) {
	c := AWSCredentials{AccessKeyID: os.Getenv("AWS_ACCESS_KEY_ID"), SecretAccessKey: os.Getenv("AWS_SECRET_ACCESS_KEY"), SessionToken: os.Getenv("AWS_SESSION_TOKEN")}
	if c.AccessKeyID == "" || c.SecretAccessKey == "" {
		return c, errNoAWSCredentials
	}
	return c, nil
}

func (s *SASL) awsProblems(encrypted bool) (problems []error) {
	if !encrypted {
		problems = append(problems, errors.New("SASL AWS_MSK_IAM: Amazon MSK takes it over TLS only: turn TLS on"))
	}
	if s.AWSFunc == nil {
		_, err := awsFromEnvironment(context.Background())
		problems = append(problems, err)
	}
	return problems
}
