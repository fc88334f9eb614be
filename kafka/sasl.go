package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/aws"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// SASL mechanisms.
const (
	MechanismPlain       = "PLAIN"
	MechanismSCRAMSHA256 = "SCRAM-SHA-256"
	MechanismSCRAMSHA512 = "SCRAM-SHA-512"
	MechanismOAuth       = "OAUTHBEARER"
	// MechanismIAM is that of Amazon MSK.
	MechanismIAM = "AWS_MSK_IAM"
)

// SASL are credentials. Its String and LogValue leave out what is secret.
type SASL struct {
	// Mechanism is PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or AWS_MSK_IAM.
	Mechanism string
	// Username and Password are for PLAIN and SCRAM.
	Username string
	Password string
	// PasswordFunc, when not nil, is asked for the password at every authentication, that is for each new connection, so that a password can change while the process runs.
	// Password is then not used. Its error fails the connection and is shown: it must not hold the password.
	PasswordFunc func() (string, error)
	// WithoutTLS lets PLAIN and OAUTHBEARER send password or token over connections that are not encrypted, where everybody on the way can read them. Default: refused.
	WithoutTLS bool
	// OAuth says where OAUTHBEARER gets its tokens; they are fetched when they are needed, and used until shortly before they end.
	OAuth *OAuth
	// TokenFunc is for OAUTHBEARER in place of OAuth: it is asked for a token at every authentication. Its error fails the connection and is shown.
	TokenFunc func(context.Context) (string, error)
	// AWSFunc is for AWS_MSK_IAM: it is asked for credentials at every authentication. nil stands for AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN of the
	// process's environment. The region is that in the broker's name, else AWS_REGION.
	AWSFunc func(context.Context) (AWSCredentials, error)
}

// String names the mechanism and the user.
func (s SASL) String() string { return fmt.Sprintf("%s %s ***", s.Mechanism, s.user()) }

// GoString is String, so that no format prints a secret.
func (s SASL) GoString() string { return s.String() }

// LogValue is String, for logs.
func (s SASL) LogValue() slog.Value { return slog.StringValue(s.String()) }

// user is the name by which the brokers know the user, as far as that can be told here; "" when it cannot.
func (s SASL) user() string {
	switch {
	case s.Mechanism == MechanismOAuth && s.OAuth != nil:
		return s.OAuth.ClientID
	case s.Mechanism == MechanismOAuth, s.Mechanism == MechanismIAM:
		return ""
	}
	return s.Username
}

// problems are all that is wrong; encrypted tells that the connections are.
func (s *SASL) problems(encrypted bool) []error {
	var problems []error
	switch s.Mechanism {
	case MechanismPlain:
		problems = append(s.passwordProblems(), s.clearProblem("password", encrypted))
	case MechanismSCRAMSHA256, MechanismSCRAMSHA512:
		problems = s.passwordProblems()
	case MechanismOAuth:
		problems = append(s.oauthProblems(), s.clearProblem("token", encrypted))
	case MechanismIAM:
		problems = s.awsProblems(encrypted)
	default:
		problems = append(s.passwordProblems(), fmt.Errorf("SASL mechanism %q: use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or AWS_MSK_IAM", s.Mechanism))
	}
	return problems
}

func (s *SASL) passwordProblems() (problems []error) {
	if s.Username == "" {
		problems = append(problems, errors.New("SASL username: it is empty"))
	}
	if s.Password == "" && s.PasswordFunc == nil {
		problems = append(problems, errors.New("SASL password: it is empty"))
	}
	return problems
}

// clearProblem refuses to show a secret to the network.
func (s *SASL) clearProblem(secret string, encrypted bool) error {
	if encrypted || s.WithoutTLS {
		return nil
	}
	return fmt.Errorf("SASL %s without TLS sends the %s in the clear: turn TLS on, use SCRAM, or, where nobody else is on the network, allow it by SASL.WithoutTLS (sasl-without-tls)", s.Mechanism, secret)
}

// mechanism authenticates the connections of one client.
func (s *SASL) mechanism(c Config) sasl.Mechanism {
	switch s.Mechanism {
	case MechanismSCRAMSHA256:
		return scram.Sha256(s.scram)
	case MechanismSCRAMSHA512:
		return scram.Sha512(s.scram)
	case MechanismOAuth:
		return oauth.Oauth(func(ctx context.Context) (oauth.Auth, error) {
			token, err := c.token(ctx)
			return oauth.Auth{Token: c.sent.note(token)}, err
		})
	case MechanismIAM:
		return aws.ManagedStreamingIAM(func(ctx context.Context) (aws.Auth, error) {
			auth, err := s.aws(ctx)
			auth.SessionToken = c.sent.note(auth.SessionToken)
			return auth, err
		})
	}
	return plain.Plain(func(context.Context) (plain.Auth, error) {
		password, err := s.password()
		return plain.Auth{User: s.Username, Pass: c.sent.note(password)}, err
	})
}

func (s *SASL) scram(context.Context) (scram.Auth, error) {
	password, err := s.password()
	return scram.Auth{User: s.Username, Pass: password}, err
}

// password is the one of now.
func (s *SASL) password() (string, error) {
	if s.PasswordFunc == nil {
		return s.Password, nil
	}
	password, err := s.PasswordFunc()
	if err != nil {
		return "", fmt.Errorf("ask for the SASL password: %w", err)
	}
	return password, nil
}
