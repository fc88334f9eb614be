package check

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

// manifest is one rendered object: of a kind that Kubernetes' own types describe, or any for the Prometheus operator's.
type manifest struct {
	kind, text string
	object     any
}

// manifests reads everything that the chart makes, by Kubernetes' types, with no field that they do not have.
func manifests(t *testing.T, set string) (all []manifest) {
	t.Helper()
	for name, text := range mustRender(t, set) {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		for document := range strings.SplitSeq(text, "\n---\n") {
			if strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(document), "---")) != "" {
				all = append(all, parse(t, name, document))
			}
		}
	}
	return all
}

func parse(t *testing.T, name, text string) manifest {
	t.Helper()
	var head struct{ APIVersion, Kind string }
	if err := yaml.Unmarshal([]byte(text), &head); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	objects := map[string]any{
		"v1 ConfigMap": &core.ConfigMap{}, "v1 Service": &core.Service{}, "v1 ServiceAccount": &core.ServiceAccount{},
		"apps/v1 Deployment": &apps.Deployment{}, "batch/v1 Job": &batch.Job{}, "policy/v1 PodDisruptionBudget": &policy.PodDisruptionBudget{},
		"monitoring.coreos.com/v1 ServiceMonitor": &map[string]any{}, "monitoring.coreos.com/v1 PrometheusRule": &map[string]any{},
	}
	object, known := objects[head.APIVersion+" "+head.Kind]
	if !known {
		t.Fatalf("%s: %q %q is of no known kind", name, head.APIVersion, head.Kind)
	}
	if err := yaml.UnmarshalStrict([]byte(text), object); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	return manifest{head.Kind, text, object}
}

// one returns the only object of its type.
func one[T any](t *testing.T, all []manifest) T {
	t.Helper()
	found := each[T](all)
	if len(found) != 1 {
		t.Fatalf("there are %d %T, want one", len(found), *new(T))
	}
	return found[0]
}

func each[T any](all []manifest) (found []T) {
	for _, m := range all {
		if object, ok := m.object.(T); ok {
			found = append(found, object)
		}
	}
	return found
}

func TestEveryObjectIsOneThatKubernetesKnows(t *testing.T) {
	t.Parallel()
	for _, set := range valueSets(t) {
		all := manifests(t, set)
		deployment := one[*apps.Deployment](t, all)
		for _, c := range deployment.Spec.Template.Spec.Containers {
			if c.LivenessProbe.HTTPGet.Path != "/livez" || c.ReadinessProbe.HTTPGet.Path != "/readyz" {
				t.Errorf("%s: the probes ask %s and %s", set, c.LivenessProbe.HTTPGet.Path, c.ReadinessProbe.HTTPGet.Path)
			}
		}
		hardened(t, set, deployment.Spec.Template.Spec)
		selects(t, set, deployment.Spec.Selector.MatchLabels, deployment.Spec.Template.Labels)
		selects(t, set, one[*core.Service](t, all).Spec.Selector, deployment.Spec.Template.Labels)
		for _, budget := range each[*policy.PodDisruptionBudget](all) {
			selects(t, set, budget.Spec.Selector.MatchLabels, deployment.Spec.Template.Labels)
		}
		for _, job := range each[*batch.Job](all) {
			if job.Annotations["helm.sh/hook"] != "pre-install,pre-upgrade" {
				t.Errorf("%s: job %s runs at %q", set, job.Name, job.Annotations["helm.sh/hook"])
			}
			hardened(t, set, job.Spec.Template.Spec)
			if job.Spec.Template.Spec.ServiceAccountName != "" {
				t.Errorf("%s: job %s wants an account that a first install has not made yet", set, job.Name)
			}
			if job.Spec.Template.Labels["app.kubernetes.io/component"] == deployment.Spec.Selector.MatchLabels["app.kubernetes.io/component"] {
				t.Errorf("%s: the pods of job %s count as relays", set, job.Name)
			}
		}
	}
}

func selects(t *testing.T, set string, selector, labels map[string]string) {
	t.Helper()
	for key, value := range selector {
		if labels[key] != value {
			t.Errorf("%s: %s: %s is selected, the pods have %q", set, key, value, labels[key])
		}
	}
}

// hardened wants what the restricted profile of Kubernetes' pod security wants, and a root file system that cannot be written.
func hardened(t *testing.T, set string, pod core.PodSpec) {
	t.Helper()
	if s := pod.SecurityContext; s == nil || !*s.RunAsNonRoot || *s.RunAsUser == 0 || s.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
		t.Errorf("%s: the pod is not restricted: %+v", set, s)
	}
	if *pod.AutomountServiceAccountToken || *pod.EnableServiceLinks {
		t.Errorf("%s: the pod gets a token or service links", set)
	}
	for _, c := range pod.Containers {
		s := c.SecurityContext
		if s == nil || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !slices.Contains(s.Capabilities.Drop, "ALL") {
			t.Errorf("%s: container %s is not restricted: %+v", set, c.Name, s)
		}
	}
}

func TestAChangeOfTheSettingsStartsTheRelaysAgain(t *testing.T) {
	t.Parallel()
	sum := func(brokers string) string {
		files, err := render(set(t, []any{brokers}, "config", "brokers"))
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range files {
			if strings.HasSuffix(name, "/deployment.yaml") {
				return regexp.MustCompile(`checksum/config: (\w+)`).FindString(text)
			}
		}
		return ""
	}
	if a, b := sum("kafka-1:9092"), sum("kafka-2:9092"); a == "" || a == b {
		t.Errorf("the pods have %q and %q", a, b)
	}
}
