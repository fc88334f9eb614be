package check

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"

	"github.com/outbox-relay/outbox/internal/config"
)

// renderText renders values as they are written, for a release. Kubernetes gets JSON, so that a number where a text has to be is a fault.
func renderText(t *testing.T, text, release, namespace string) (all []any, err error) {
	t.Helper()
	var values common.Values
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	c, err := loader.LoadDir(chart)
	if err != nil {
		t.Fatal(err)
	}
	with, err := util.ToRenderValues(c, values, common.ReleaseOptions{Name: release, Namespace: namespace, Revision: 1, IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(c, with)
	if err != nil {
		return nil, err
	}
	for name, text := range files {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		for document := range strings.SplitSeq(text, "\n---\n") {
			if strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(document), "---")) == "" {
				continue
			}
			object, err := asJSON(document)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			all = append(all, object)
		}
	}
	return all, nil
}

func asJSON(document string) (any, error) {
	raw, err := yaml.YAMLToJSONStrict([]byte(document))
	if err != nil {
		return nil, err
	}
	var head struct{ Kind string }
	if err := json.Unmarshal(raw, &head); err != nil {
		return nil, err
	}
	objects := map[string]any{
		"ConfigMap": &core.ConfigMap{}, "Service": &core.Service{}, "ServiceAccount": &core.ServiceAccount{},
		"Deployment": &apps.Deployment{}, "Job": &batch.Job{}, "PodDisruptionBudget": &policy.PodDisruptionBudget{},
	}
	object, known := objects[head.Kind]
	if !known {
		object = &monitoring{}
	}
	decoder := json.NewDecoder(strings.NewReader(string(raw)))
	decoder.DisallowUnknownFields()
	return object, decoder.Decode(object)
}

// monitoring is what the chart makes for the Prometheus operator.
type monitoring struct {
	APIVersion, Kind string
	Metadata         struct {
		Name, Namespace string
		Labels          map[string]string
	}
	Spec struct {
		Selector struct {
			MatchLabels map[string]string
		}
		Endpoints []struct{ Port, Path, Interval string }
		Groups    []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
}

const small = "image: {repository: r}\nconfig: {brokers: ['k:1']}\nserviceMonitor: {enabled: true}\nprometheusRule: {enabled: true}\n"

// Names that look like numbers or truth values, and texts with what YAML reads as something else, reach Kubernetes as they are.
func TestEveryTextReachesKubernetesAsATextAndAsItIs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ values, release, namespace string }{
		"a release of digits":          {small, "123", "orders"},
		"a release with dots":          {small, "shop.v2", "orders"},
		"a namespace of digits":        {small, "shop", "123"},
		"a name that is a truth value": {small + "fullnameOverride: 'true'\n", "shop", "orders"},
		"a name that is a number":      {small + "fullnameOverride: 'e3'\nnameOverride: '1e3'\n", "shop", "orders"},
		"a label that is a no":         {small + "nameOverride: 'no'\n", "shop", "orders"},
		"an image of digits":           {"image: {repository: '1', tag: '2'}\nconfig: {brokers: ['k:1']}\n", "shop", "orders"},
		"a tag that ends after 63":     {"image: {repository: r, tag: " + strings.Repeat("a", 62) + "-b}\nconfig: {brokers: ['k:1']}\n", "shop", "orders"},
		"secrets of digits":            {small + "secrets: [{setting: sasl-password, secretName: '123', secretKey: '456'}]\nmigrations: [{secretName: '123', secretKey: 'true'}]\n", "shop", "orders"},
		"a priority of digits":         {small + "priorityClassName: '123'\n", "shop", "orders"},
		"an account of digits":         {small + "serviceAccount: {name: '123'}\n", "shop", "orders"},
		"large numbers":                {small + "terminationGracePeriodSeconds: 1000000\nmigrationDeadlineSeconds: 1000000\nmigrations: [{secretName: s, secretKey: k, lanes: 1000}]\nprometheusRule: {oldestPendingSeconds: 1000000}\n", "shop", "orders"},
		"a share":                      {small + "podDisruptionBudget: {maxUnavailable: 50%}\n", "shop", "orders"},
	} {
		all, err := renderText(t, c.values, c.release, c.namespace)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, object := range all {
			switch o := object.(type) {
			case *core.Service:
				if !startsWithLetter(o.Name) || strings.Contains(o.Name, ".") || o.Namespace != c.namespace {
					t.Errorf("%s: the service is called %q in %q", name, o.Name, o.Namespace)
				}
			case *apps.Deployment:
				if v := o.Labels["app.kubernetes.io/version"]; v == "" || strings.HasSuffix(v, "-") {
					t.Errorf("%s: the version is %q", name, v)
				}
			}
		}
	}
}

func startsWithLetter(s string) bool { return s != "" && s[0] >= 'a' && s[0] <= 'z' }

func TestMigrateUpGetsTheTablesNameAsItIs(t *testing.T) {
	t.Parallel()
	for table, want := range map[string]string{`public."out #box"`: `public."out #box"`, `public."out: box"`: `public."out: box"`, `a.'"b\c`: `a.'"b\c`, `public."ä$(X)"`: `public."ä$$(X)"`} {
		quoted, err := json.Marshal(table)
		if err != nil {
			t.Fatal(err)
		}
		all, err := renderText(t, small+"migrations: [{secretName: s, secretKey: k, table: "+string(quoted)+"}]\n", "shop", "orders")
		if err != nil {
			t.Errorf("%s: %v", table, err)
		}
		for _, object := range all {
			if job, ok := object.(*batch.Job); ok && job.Spec.Template.Spec.Containers[0].Args[2] != "--table="+want {
				t.Errorf("%s: the arguments are %q", table, job.Spec.Template.Spec.Containers[0].Args)
			}
		}
	}
}

// A line end in a value would begin a field of its own, a key that is there twice would hide the chart's.
func TestTheChartRefusesValuesThatWouldBecomeSomethingElse(t *testing.T) {
	t.Parallel()
	for name, values := range map[string]string{
		"a repository with a command":  `image: {repository: "r:1\n          command: [evil]"}`,
		"a tag with a command":         `image: {repository: r, tag: "v1\n          command: [evil]"}`,
		"a tag with a comment":         `image: {repository: r, tag: "v1 #x"}`,
		"a priority with a network":    small + `priorityClassName: "x\n      hostNetwork: true"`,
		"an interval with a path":      small + `serviceMonitor: {enabled: true, interval: "30s\n      path: /x"}`,
		"a budget with another":        small + `podDisruptionBudget: {maxUnavailable: "1\n  minAvailable: 0"}`,
		"a table with a flag":          small + `migrations: [{secretName: s, secretKey: k, table: "x\n            - --lanes=99"}]`,
		"an account with a token":      small + `serviceAccount: {name: "x\n      automountServiceAccountToken: true"}`,
		"a name that is none":          small + `fullnameOverride: "a b"`,
		"a label of the chart":         small + `podLabels: {app.kubernetes.io/component: mine}`,
		"an annotation of the chart":   small + `podAnnotations: {checksum/config: mine}`,
		"a setting by a variable":      small + `extraEnv: [{name: OUTBOX_DRAIN_TIMEOUT, value: 5m}]`,
		"a secret that is no setting":  small + `secrets: [{setting: brokerz, secretName: s, secretKey: k}]`,
		"a secret that is no secret":   small + `secrets: [{setting: sasl-username, secretName: s, secretKey: k}]`,
		"a secret of no source":        small + `secrets: [{setting: sasl-password, source: nosuch, secretName: s, secretKey: k}]`,
		"a secret twice":               small + `secrets: [{setting: sasl-password, secretName: s, secretKey: k}, {setting: sasl-password, secretName: s2, secretKey: k}]`,
		"a drain in small units":       `config: {drain-timeout: 60000000µs}`,
		"a drain in smaller ones":      `config: {drain-timeout: 60000000000ns}`,
		"a drain that begins at a dot": `config: {drain-timeout: .5h}`,
	} {
		if !strings.Contains(values, "image:") {
			values = "image: {repository: r}\n" + values
		}
		// What Kubernetes alone would refuse, an installation that has begun would find.
		if _, err := renderText(t, values, "shop", "orders"); err == nil || strings.Contains(err.Error(), ".yaml: ") {
			t.Errorf("%s was taken: %v", name, err)
		}
	}
}

func TestNoPasswordOfADatabaseGetsIntoTheConfigMap(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"postgres://u:SECRET@h/db", "postgres://u:SEC/RET@h/db", "postgres://u@corp:SECRET@h/db", "postgres://u:@h:SECRET@h/db", "postgres://u%3ASECRET@h/db", "postgres://u:123/RET@h/db",
		"postgres://u@h/db?sslpassword=SECRET", "postgres://u@h/db?passwor%64=SECRET", "postgres://u@h/db?password=SECRET", "postgres://u@h/db?x=1&PASSWORD=SECRET", "postgres://u@h/db?options=-c%20x%3DSECRET",
		"host=h\tpassword=SECRET", "host=h\npassword = SECRET", "password=SECRET", "host=h sslpassword=SECRET", "host='h password=SECRET'", `host=h\ password=SECRET`, "u:SECRET@h/db", "mysql://u@h/db",
	} {
		if _, err := render(set(t, url, "config", "database-url")); err == nil {
			t.Errorf("%q was taken", url)
		}
	}
	for _, url := range []string{
		"postgres://relay@db-1:5432/shop", "postgresql://db/shop", "postgres://relay%40corp@db-1,db-2:5433/shop?sslmode=verify-full&sslrootcert=/etc/ca.pem&target_session_attrs=read-write",
		"postgres:///shop?host=/run/postgresql&user=relay", "postgres://relay@[fd00::1]:5432/shop", "host=db user=relay passfile=/x", " host = 'db 1' dbname='my shop' ",
	} {
		if _, err := render(set(t, url, "config", "database-url")); err != nil {
			t.Errorf("%q: %v", url, err)
		}
	}
}

// The chart takes from secrets what the relay reads from a file, and the database's URL; the list in values.schema.json follows the settings.
func TestEverySecretSettingCanComeFromASecret(t *testing.T) {
	t.Parallel()
	takes := func(key string) bool {
		_, err := render(set(t, []any{map[string]any{"setting": key, "secretName": "s", "secretKey": "k"}}, "secrets"))
		return err == nil
	}
	for _, s := range config.Settings() {
		if want := s.Secret || s.Key == "database-url"; takes(s.Key) != want {
			t.Errorf("%s from a secret: %t, want %t; the list is that of secrets in values.schema.json", s.Key, !want, want)
		}
	}
}
