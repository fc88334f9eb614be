package check

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/outbox-relay/outbox/internal/config"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// compose is what the compose file may have of the compose specification; anything else is an error.
type compose struct {
	Name     string             `json:"name"`
	Services map[string]service `json:"services"`
	Secrets  map[string]struct {
		Environment string `json:"environment"`
	} `json:"secrets"`
	Volumes map[string]any `json:"volumes"`
}

type service struct {
	Image       string         `json:"image"`
	Build       string         `json:"build"`
	Command     []string       `json:"command"`
	Environment map[string]any `json:"environment"`
	Secrets     []string       `json:"secrets"`
	Ports       []string       `json:"ports"`
	Volumes     []string       `json:"volumes"`
	Restart     string         `json:"restart"`
	ReadOnly    bool           `json:"read_only"`
	CapDrop     []string       `json:"cap_drop"`
	SecurityOpt []string       `json:"security_opt"`
	StopGrace   string         `json:"stop_grace_period"`
	Deploy      struct {
		Replicas int `json:"replicas"`
	} `json:"deploy"`
	Healthcheck *struct {
		Test        []string `json:"test"`
		Interval    string   `json:"interval"`
		Timeout     string   `json:"timeout"`
		Retries     int      `json:"retries"`
		StartPeriod string   `json:"start_period"`
		Disable     bool     `json:"disable"`
	} `json:"healthcheck"`
	DependsOn map[string]struct {
		Condition string `json:"condition"`
	} `json:"depends_on"`
}

func readCompose(t *testing.T) compose {
	t.Helper()
	var c compose
	if err := yaml.UnmarshalStrict([]byte(read(t, "../compose.yaml")), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

func (s service) env(t *testing.T, secrets string) config.Environment {
	t.Helper()
	env := config.Environment{}
	for name, value := range s.Environment {
		text, ok := value.(string)
		if !ok {
			t.Fatalf("%s is no text", name)
		}
		env[name] = strings.ReplaceAll(text, "/run/secrets", secrets)
	}
	return env
}

func TestTheComposeFileHangsTogether(t *testing.T) {
	t.Parallel()
	c := readCompose(t)
	for name, s := range c.Services {
		for other, on := range s.DependsOn {
			o, known := c.Services[other]
			switch {
			case !known:
				t.Errorf("%s waits for %s, which is no service", name, other)
			case on.Condition == "service_healthy" && (o.Healthcheck == nil || o.Healthcheck.Disable):
				t.Errorf("%s waits for the health of %s, which has no check", name, other)
			case on.Condition == "service_completed_successfully" && o.Restart == "unless-stopped":
				t.Errorf("%s waits for the end of %s, which is started again", name, other)
			}
		}
		for _, secret := range s.Secrets {
			if c.Secrets[secret].Environment == "" {
				t.Errorf("%s wants the secret %s, which there is not", name, secret)
			}
		}
		for _, v := range s.Volumes {
			if volume, _, _ := strings.Cut(v, ":"); !slices.Contains(keys(c.Volumes), volume) {
				t.Errorf("%s wants the volume %s, which there is not", name, volume)
			}
		}
		if h := s.Healthcheck; h != nil && !h.Disable {
			for _, d := range []string{h.Interval, h.Timeout} {
				if _, err := time.ParseDuration(d); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
	}
}

// What PostgreSQL remembers as published must not go with Kafka's container.
func TestKafkaKeepsItsLogInTheVolume(t *testing.T) {
	t.Parallel()
	kafka := readCompose(t).Services["kafka"]
	if dir := kafka.Environment["KAFKA_LOG_DIRS"]; !slices.Equal(kafka.Volumes, []string{fmt.Sprintf("kafka:%v", dir)}) {
		t.Errorf("the log is in %v, and the volumes are %q", dir, kafka.Volumes)
	}
}

func keys(m map[string]any) (all []string) {
	for key := range m {
		all = append(all, key)
	}
	return all
}

func TestTheRelayTakesTheSettingsOfTheComposeFile(t *testing.T) {
	t.Parallel()
	c := readCompose(t)
	secrets := t.TempDir()
	lay(t, filepath.Join(secrets, "database-password"), "hunter2\n")
	relay := c.Services["relay"]
	cfg, err := load(relay.env(t, secrets), relay.Command[1:]...)
	if err != nil || relay.Command[0] != "relay" {
		t.Fatalf("%q: %v", relay.Command, err)
	}
	source := cfg.Sources[0]
	if source.DatabasePassword != "hunter2" || !slices.Equal(source.Brokers, []string{"kafka:19092"}) || !source.CreateTopics {
		t.Errorf("got %+v", source)
	}
	if grace, err := time.ParseDuration(relay.StopGrace); err != nil || grace <= source.DrainTimeout {
		t.Errorf("it is killed after %q, and drains for %s: %v", relay.StopGrace, source.DrainTimeout, err)
	}
	migrate := c.Services["migrate"]
	if db, err := config.Database(t.Context(), nil, migrate.env(t, secrets), ""); err != nil || db.DatabaseURL != source.DatabaseURL || db.DatabasePassword != "hunter2" {
		t.Errorf("migrate has %+v, %v", db, err)
	}
	for name, s := range map[string]service{"relay": relay, "migrate": migrate} {
		if !s.ReadOnly || !slices.Contains(s.CapDrop, "ALL") || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s may write or gain rights", name)
		}
	}
}

// directive is a line of a unit.
var directive = regexp.MustCompile(`(?m)^([A-Za-z]+)=(.*)$`)

func TestTheRelayTakesTheSettingsOfTheUnit(t *testing.T) {
	t.Parallel()
	lines := map[string][]string{}
	for _, m := range directive.FindAllStringSubmatch(read(t, "../systemd/outbox-relay.service"), -1) {
		lines[m[1]] = append(lines[m[1]], m[2])
	}
	credentials := t.TempDir()
	for _, c := range lines["LoadCredential"] {
		name, _, _ := strings.Cut(c, ":")
		lay(t, filepath.Join(credentials, name), "hunter2\n")
	}
	env := config.Environment{"DATABASE_URL": "postgres://db/shop", "KAFKA_BROKERS": "kafka:9092"}
	for _, e := range lines["Environment"] {
		name, value, _ := strings.Cut(strings.ReplaceAll(e, "%d", credentials), "=")
		env[name] = value
	}
	command := strings.Fields(lines["ExecStart"][0])
	lay(t, filepath.Join(credentials, "outbox.yaml"), "listen: :9090\n")
	at := slices.Index(command, "--config")
	command[at+1] = filepath.Join(credentials, "outbox.yaml")
	cfg, err := load(env, command[2:]...)
	if err != nil || command[1] != "relay" || cfg.Sources[0].DatabasePassword != "hunter2" {
		t.Fatalf("%q: %+v, %v", command, cfg, err)
	}
	seconds := func(name string) time.Duration {
		d, err := time.ParseDuration(lines[name][0] + "s")
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return d
	}
	if s := cfg.Sources[0]; seconds("TimeoutStopSec") <= s.DrainTimeout || seconds("TimeoutStartSec") <= s.StartTimeout {
		t.Errorf("systemd waits no longer than the relay: %v", lines)
	}
	for name, want := range map[string]string{"Type": "notify", "RestartPreventExitStatus": "2 78", "ProtectSystem": "strict", "NoNewPrivileges": "yes", "DynamicUser": "yes"} {
		if !slices.Equal(lines[name], []string{want}) {
			t.Errorf("%s is %q, want %s", name, lines[name], want)
		}
	}
}

// Both images run the same program in the same way.
func TestTheImagesAreAlike(t *testing.T) {
	t.Parallel()
	_, built, _ := strings.Cut(read(t, "../../Dockerfile"), "\nFROM gcr.io/")
	_, released, _ := strings.Cut(read(t, "../release.Dockerfile"), "\nFROM gcr.io/")
	built = strings.ReplaceAll(built, "COPY --from=build /outbox /outbox", "COPY outbox /outbox")
	built = regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(built, "")
	if built != released || !strings.Contains(built, "\nUSER 65532:65532\n") {
		t.Errorf("they differ: %s", firstDifference(built, released))
	}
}

func TestAReleaseHasFilesThatThereAre(t *testing.T) {
	t.Parallel()
	var release struct {
		Builds   []struct{ Main string }
		Archives []struct{ Files []string }
		Dockers  []struct{ Dockerfile string }
	}
	if err := yaml.Unmarshal([]byte(read(t, "../../.goreleaser.yaml")), &release); err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, b := range release.Builds {
		paths = append(paths, b.Main)
	}
	for _, a := range release.Archives {
		paths = append(paths, a.Files...)
	}
	for _, d := range release.Dockers {
		paths = append(paths, d.Dockerfile)
	}
	if len(paths) < 5 {
		t.Fatalf("only %q", paths)
	}
	for _, path := range paths {
		if _, err := os.Stat(filepath.Join("../..", path)); err != nil {
			t.Error(err)
		}
	}
}
