package check

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"

	"github.com/outbox-relay/outbox/internal/config"
)

// load reads settings as the relay does that is started with the arguments and the variables.
func load(env config.Environment, args ...string) (*config.Config, error) {
	flags := pflag.NewFlagSet("relay", pflag.ContinueOnError)
	config.Flags(flags)
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	cfg, err := config.Load(context.Background(), flags, env)
	return cfg, errors.Join(err, strange(env))
}

// strange is an error for each variable that looks like a setting and is none.
func strange(env config.Environment) error {
	known := map[string]bool{}
	for _, s := range config.Variables() {
		known[s] = true
	}
	var problems []error
	for name := range env {
		if strings.HasPrefix(name, config.Prefix) && !known[name] && !config.OfOneSource(name) {
			problems = append(problems, errors.New(name+" is no setting"))
		}
	}
	return errors.Join(problems...)
}

// inContainer is the environment of the relay's container, with the mounted files laid down in a folder.
func inContainer(t *testing.T, c core.Container, files string) config.Environment {
	t.Helper()
	env := config.Environment{}
	for _, v := range c.Env {
		value := strings.ReplaceAll(v.Value, "/etc/", files+"/")
		if v.ValueFrom != nil && v.ValueFrom.SecretKeyRef != nil {
			value = "postgres://relay@" + v.ValueFrom.SecretKeyRef.Name + ":5432/shop"
		} else if v.ValueFrom != nil {
			value = "pod-1"
		}
		env[v.Name] = value
	}
	return env
}

func lay(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// mounted lays down the settings and the secrets where the container finds them.
func mounted(t *testing.T, deployment *apps.Deployment, settings *core.ConfigMap) (folder string) {
	t.Helper()
	folder = t.TempDir()
	container := deployment.Spec.Template.Spec.Containers[0]
	for _, m := range container.VolumeMounts {
		for _, v := range deployment.Spec.Template.Spec.Volumes {
			at := strings.Replace(m.MountPath, "/etc", folder, 1)
			switch {
			case v.Name != m.Name:
			case v.ConfigMap != nil && v.ConfigMap.Name == settings.Name:
				for name, text := range settings.Data {
					lay(t, filepath.Join(at, name), text)
				}
			case v.Projected != nil:
				for _, p := range v.Projected.Sources {
					lay(t, filepath.Join(at, p.Secret.Items[0].Path), "secret of "+p.Secret.Name+"\n")
				}
			}
		}
	}
	return folder
}

func TestTheRelayTakesTheSettingsThatTheChartRenders(t *testing.T) {
	t.Parallel()
	loaded := map[string]*config.Config{}
	for _, set := range valueSets(t) {
		all := manifests(t, set)
		deployment := one[*apps.Deployment](t, all)
		folder := mounted(t, deployment, one[*core.ConfigMap](t, all))
		container := deployment.Spec.Template.Spec.Containers[0]
		if container.Args[0] != "relay" {
			t.Errorf("%s: the container runs %q", set, container.Args)
		}
		cfg, err := load(inContainer(t, container, folder), container.Args[1:]...)
		if err != nil {
			t.Errorf("%s: %v", set, err)
			continue
		}
		if want := container.Ports[0].ContainerPort; !strings.HasSuffix(cfg.Listen, ":"+regexp.MustCompile(`\d+`).FindString(container.Env[1].Value)) || want == 0 {
			t.Errorf("%s: it listens at %q, the port is %d", set, cfg.Listen, want)
		}
		for _, source := range cfg.Sources {
			if grace := *deployment.Spec.Template.Spec.TerminationGracePeriodSeconds; float64(grace) <= source.DrainTimeout.Seconds() {
				t.Errorf("%s: it is killed after %d s, and drains for %s", set, grace, source.DrainTimeout)
			}
		}
		loaded[filepath.Base(set)] = cfg
	}
	whole := loaded["whole.values.yaml"]
	if whole == nil || len(whole.Sources) != 2 {
		t.Fatalf("got %+v", whole)
	}
	orders, billing := whole.Sources[0], whole.Sources[1]
	if orders.DatabaseURL != "postgres://relay@orders-relay:5432/shop" || orders.DatabasePassword != "" || orders.SASLPassword != "secret of kafka" ||
		billing.DatabaseURL != "postgres://relay@db-2:5432/billing" || billing.DatabasePassword != "secret of billing-relay" || billing.Table != "billing.outbox_event" {
		t.Errorf("the secrets do not reach their settings: %+v", whole.Sources)
	}
}

func TestNoSecretSettingCanStandAmongTheValues(t *testing.T) {
	t.Parallel()
	secrets := 0
	for _, s := range config.Settings() {
		if !s.Secret {
			continue
		}
		secrets++
		if _, err := render(set(t, "x", "config", s.Key)); err == nil {
			t.Errorf("the values may hold %s: let values.schema.json refuse it", s.Key)
		}
		if _, err := render(set(t, []any{map[string]any{"name": "a", s.Key: "x"}}, "config", "sources")); err == nil {
			t.Errorf("a source in the values may hold %s", s.Key)
		}
	}
	if secrets == 0 {
		t.Error("no setting is a secret")
	}
}
