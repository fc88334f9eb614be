package kafka

import (
	"cmp"
	"encoding/base64"
	"errors"
	"html"
	"net/url"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Who refuses a request may repeat it in the answer, with the password or the token that was in it. Any request may be the first of a new connection, and fail by what the broker
// says of its authentication. So whatever servers say passes through here before anybody sees it: every error of a client that is returned or logged.

// masked is the text without the secrets, in whatever form a request has them.
func masked(text string, secrets ...string) string {
	var forms []string
	for _, secret := range secrets {
		if secret != "" {
			forms = append(forms, formsOf(secret)...)
		}
	}
	// The longest first: none is to leave the rest of another.
	slices.SortFunc(forms, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	for _, form := range slices.Compact(forms) {
		text = strings.ReplaceAll(text, form, "***")
	}
	return text
}

// formsOf are the secret itself and how forms, URLs, HTML and base64 write it.
func formsOf(secret string) []string {
	query, path := url.QueryEscape(secret), url.PathEscape(secret)
	forms := []string{secret, query, path, lowerEscapes(query), lowerEscapes(path), url.QueryEscape(query), html.EscapeString(secret)}
	forms = append(forms, inBase64(secret)...)
	return append(forms, inBase64(query)...)
}

// lowerEscapes writes %2F as %2f.
func lowerEscapes(text string) string {
	b := []byte(text)
	for i := range b {
		if b[i] == '%' {
			copy(b[i:min(i+3, len(b))], strings.ToLower(text[i:min(i+3, len(b))]))
		}
	}
	return string(b)
}

// inBase64 is how the text looks in base64, alone and as a part of something longer, such as user:password, where it depends on how many bytes stand before it.
func inBase64(text string) (forms []string) {
	// A shorter one would be found in other words as well.
	const shortest = 6
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		forms = append(forms, encoding.EncodeToString([]byte(text)))
		for before := range 3 {
			all := encoding.EncodeToString([]byte(strings.Repeat("\x00", before) + text))
			// The first and the last letter may be of what stands beside it as well.
			if part := all[(before*8+5)/6 : (before+len(text))*8/6]; len(part) >= shortest {
				forms = append(forms, part)
			}
		}
	}
	return forms
}

// oneLine is a text of somebody else's, shortened, without what would break a line or steer a terminal.
func oneLine(text string) string { return shortened(text, 200) }

func shortened(text string, longest int) string {
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, ""), func(r rune) bool {
		return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
	}), " ")
	if letters := []rune(text); len(letters) > longest {
		text = string(letters[:longest]) + "…"
	}
	return text
}

// discreetError is an error with another text.
type discreetError struct {
	error
	text string
}

func (e *discreetError) Error() string { return e.text }

func (e *discreetError) Unwrap() error { return e.error }

// secrets are those that were sent to brokers; all copies of a Config share them. nil has none, and keeps none.
type secrets struct {
	mu sync.Mutex
	// sent are the last ones.
	sent []string
}

// keptSecrets is more than the connections that authenticate at the same time have.
const keptSecrets = 4

// note keeps a secret that is about to be sent, and returns it.
func (s *secrets) note(secret string) string {
	if s == nil {
		return secret
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if secret != "" && !slices.Contains(s.sent, secret) {
		s.sent = append(s.sent[max(0, len(s.sent)-keptSecrets+1):len(s.sent):len(s.sent)], secret)
	}
	return secret
}

// longestError is for an error that is not known to be a broker's words: longer than any that this side makes.
const longestError = 1000

// discreet is the error without secrets, and with what a broker has said in few words; nil stays nil. It is for the client's own errors, before words of ours are put behind them.
func (s *secrets) discreet(err error) error {
	if err == nil || isA[*discreetError](err) {
		return err
	}
	text := s.discreetText(err.Error())
	if ours, said, found := brokersWords(err, text); found {
		text = ours + oneLine(said)
	} else {
		text = shortened(text, longestError)
	}
	if text == err.Error() {
		return err
	}
	return &discreetError{err, text}
}

// discreetText is the text without secrets.
func (s *secrets) discreetText(text string) string {
	if s == nil {
		return text
	}
	s.mu.Lock()
	sent := s.sent
	s.mu.Unlock()
	return masked(text, sent...)
}

// brokersWords cuts the text of an error in front of what the broker has said: the client appends it to the code and its description, and the client's admin to the code alone.
func brokersWords(err error, text string) (ours, said string, found bool) {
	var code *kerr.Error
	if !errors.As(err, &code) {
		return text, "", false
	}
	lead := code.Error() + ": "
	if isA[*kadm.ErrAndMessage](err) {
		lead = code.Message + ": "
	}
	ours, said, found = strings.Cut(text, lead)
	return ours + lead, said, found
}
