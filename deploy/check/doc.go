// Package check holds the tests of what the program is deployed with: chart, compose file, unit and release. What they need of Helm and Kubernetes stays in a module of its own.
package check
