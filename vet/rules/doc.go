// Package rules looks at the alerts and the dashboard with Prometheus' own tools. It is a module of its own, for these have hundreds of dependencies.
package rules
