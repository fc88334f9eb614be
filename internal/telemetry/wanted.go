package telemetry

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Names of variables.
const (
	disabledVariable = "OTEL_SDK_DISABLED"
	exporterVariable = "OTEL_TRACES_EXPORTER"
)

// endpoints and protocols are in the order in which they count.
func endpoints() []string {
	return []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"}
}

func protocols() []string {
	return []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"}
}

// wanted tells whether somebody asks for traces: names the exporter, or where they are to go. Variables that only say how, such as a sampler's, may be there for every process of
// a machine. An error repeats no value of an address.
func wanted(variable func(string) string) (bool, error) {
	if strings.EqualFold(variable(disabledVariable), "true") {
		return false, nil
	}
	exporter := strings.TrimSpace(variable(exporterVariable))
	endpoint, set := first(variable, endpoints())
	switch exporter {
	case "none":
		return false, nil
	case "":
		if !set {
			return false, nil
		}
	case "otlp":
	default:
		return false, fmt.Errorf("%s is %q, and this program knows otlp and none: choose one of them", exporterVariable, exporter)
	}
	if err := checkEndpoint(endpoint, variable(endpoint)); set && err != nil {
		return false, err
	}
	return true, checkProtocol(variable)
}

// first is the first of the variables that is set.
func first(variable func(string) string, names []string) (name string, set bool) {
	i := slices.IndexFunc(names, func(n string) bool { return strings.TrimSpace(variable(n)) != "" })
	if i < 0 {
		return "", false
	}
	return names[i], true
}

func checkEndpoint(name, value string) error {
	u, err := url.Parse(strings.TrimSpace(value))
	if err != nil || u.Host == "" || !slices.Contains([]string{"http", "https"}, strings.ToLower(u.Scheme)) {
		return fmt.Errorf("%s is no URL of http or https: want http://collector:4318", name)
	}
	return nil
}

func checkProtocol(variable func(string) string) error {
	name, _ := first(variable, protocols())
	protocol := cmp.Or(strings.TrimSpace(variable(name)), "http/protobuf")
	if !slices.Contains([]string{"http/protobuf", "http/json"}, protocol) {
		return fmt.Errorf("%s is %q, and this program speaks http/protobuf and http/json: choose one of them, and the collector's port for it, usually 4318", name, protocol)
	}
	return nil
}
