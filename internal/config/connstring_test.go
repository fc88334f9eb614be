package config

import (
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

func TestAConnectionStringIsShownWithoutItsPasswords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                              "",
		"postgres://me@h:1/d?sslmode=x": "postgres://me@h:1/d?sslmode=x",
		"postgres://me:hunter2@h/d":     "postgres://me:***@h/d",
		"postgres://me:hunt:er2@h/d\n":  "postgres://me:***@h/d",
		"postgres://:hunter2@h/d":       "postgres://:***@h/d",
		"postgres://h1,h2:5433,[::1]:5434/d?target_session_attrs=read-write": "postgres://h1,h2:5433,[::1]:5434/d?target_session_attrs=read-write",
		"postgres://me%40corp:hunter2@%2Frun%2Fpg/d%20x":                     "postgres://me%40corp:***@%2Frun%2Fpg/***",
		"postgres:///d?host=/run/pg&application_name=a%20b":                  "postgres:///d?host=/run/pg&application_name=a%20b",
		"postgres://me%3Ahunter2@h/d":                                        "postgres://***@h/d",
		"postgresql://me@h/d?password=hunter2&sslmode=x&sslpassword=hunter2": "postgresql://me@h/d?password=***&sslmode=x&sslpassword=***",
		"postgres://me@h/d?p%61ssword=hunter2":                               "postgres://me@h/d?password=***",
		"postgres://u@h/db?options=-c%20app.token%3Dhunter2":                 "postgres://u@h/db?options=***",
		"postgres://u@h/db?pwd=hunter2":                                      "postgres://u@h/db?***",
		"host=h password=hunter2 user=u":                                     "host=h password=*** user=u",
		"host=h password = hunter2&hunter2 user=u":                           "host=h password=*** user=u",
		"host=h Password='hunter2 \\' hunter2' user=u":                       "host=h Password=*** user=u",
		"host=h sslpassword=hunter2\\ hunter2":                               "host=h sslpassword=***",
		"password=a://hunter2@h":                                             "password=***",
		"host=h passfile=/etc/pgpass application_name='a b'":                 "host=h passfile=/etc/pgpass application_name='a b'",
		"host=h passwrd=hunter2":                                             "host=h ***",
		"host=a\\ password=hunter2":                                          "host=***",
		"dbname=postgres://u:hunter2@h/d":                                    "dbname=***",
	} {
		if got := Shown(text); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", text, got, want)
		}
	}
}

// Nobody knows what in them is the password: nothing is shown, and on the command line they are taken to hold one.
func inDoubt() []string {
	return []string{
		"postgres://user@corp:hunter2@h/db", `"postgres://user:hunter2@h/db"`, "'postgres://user:hunter2@h/db'", " postgres://user:hunter2@h/db", "\npostgres://user:hunter2@h/db",
		"postgresql+asyncpg://user:hunter2@h/db", "jdbc:postgresql://user:hunter2@h/db", "Postgres://user:hunter2@h/db", "mysql://user:hunter2@h/db",
		"user:hunter2@h/db", "postgres:/user:hunter2@h/db", "postgres:user:hunter2@h/db", "hunter2",
		"postgres://us/er:hunter2@h/db", "postgres://user:5432/hunter2@h/db", "postgres://user:hun@ter2@h/db", "postgres://me:hunter2@hunter2/x@h/d", "postgres://user:hun?ter2@h/db",
		"postgres://me:hunter2?hunter2#@h/d", "postgres://user:hunter2#x@h/db", "postgres://user:hunter2[x@h/db", "postgres://user:hunter2%@h/db", "postgres://user:hunter2%zz@h/db",
		"postgres://user:hunter2", "postgres://user:hunter2/db", "postgres://u@h/db#password=hunter2", "postgres://u:hunt\ner2@h/db", "postgres://u:hunt er2@h/db", "postgres://u:h\u00fcnter2@h/db",
		"postgres://me@h/d?p%zzssword=hunter2", "postgres://me@h/d?password=a&hunter2", "postgres://me@h/d?password=a=hunter2", "postgres://me@h/d?hunter2",
		"host=h 'password'=hunter2", "host=h password: hunter2", "host=h user=u password: hunter2 sslmode=disable", "host=h password:=hunter2", "host=h password='a''hunter2'",
		"host=h password='a''hunter2' user=u", "host=h password='a'hunter2=b", "host=h password='hunter2 user=u", "host=h password=a hunter2", "host=h password=a hunter2 user=u", "host=h \"password\"=hunter2",
		"host=h;password=hunter2", "host=h,password=hunter2", "{\"password\": \"hunter2=\"}", "host=h password=hunter2\\",
	}
}

func TestAConnectionStringInDoubtIsNotShown(t *testing.T) {
	t.Parallel()
	for _, text := range inDoubt() {
		if text == "host=h;password=hunter2" || text == "host=h,password=hunter2" {
			// They are a host of that name, to the driver too.
			if got := Shown(text); strings.Contains(got, "hunter2") {
				t.Errorf("%q: got %s", text, got)
			}
			continue
		}
		if got := Shown(text); got != NotShown {
			t.Errorf("%q: got %s", text, got)
		}
		if _, sure := HoldsPassword(text); sure {
			t.Errorf("%q: is said to be read in one way only", text)
		}
	}
}

func TestAPasswordInAConnectionStringIsFoundWhereTheDriverFindsIt(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"":                                   false,
		"postgres://me@h/d":                  false,
		"postgres://me:@h/d":                 false,
		"postgres://me:hunter2@h/d":          true,
		"postgres://h/d?password=":           false,
		"postgres://h/d?pass%77ord=hunter2":  true,
		"postgres://h/d?PassWord=hunter2":    true,
		"postgres://h/d?sslpassword=hunter2": true,
		"postgres://h/d?passfile=/x":         false,
		"host=h password = 'hunter2'":        true,
		"host=password user=token":           false,
		"host=h pwd=hunter2":                 true,
	} {
		if holds, sure := HoldsPassword(text); holds != want || !sure {
			t.Errorf("%s: holds %v, sure %v; want %v", text, holds, sure, want)
		}
	}
}

// What is read in one way only, the driver reads in that way: whatever it takes for a password is found, and not shown.
func FuzzAPasswordIsNeverShown(f *testing.F) {
	for _, text := range append(inDoubt(), "postgres://me:hunter2@h:1/d?sslmode=disable&password=x", "host=h password='a \\' b' user=u sslmode=disable") {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		holds, sure := HoldsPassword(text)
		cfg, err := pgconn.ParseConfig(withoutFiles(text))
		if !sure || err != nil {
			return
		}
		if cfg.Password != "" && !holds {
			t.Errorf("%q holds the password %q", text, cfg.Password)
		}
		shown := Shown(text)
		if unescaped, err := url.PathUnescape(shown); err == nil {
			shown += unescaped
		}
		if len(cfg.Password) > 12 && strings.Contains(shown, cfg.Password) {
			t.Errorf("%q is shown as %s", text, shown)
		}
	})
}

// withoutFiles keeps the driver from looking for a password elsewhere.
func withoutFiles(text string) string {
	switch {
	case !strings.HasPrefix(text, "postgres://") && !strings.HasPrefix(text, "postgresql://"):
		return "passfile=/dev/null " + text
	case strings.Contains(text, "?"):
		return text + "&passfile=/dev/null"
	}
	return text + "?passfile=/dev/null"
}
