FUZZTIME ?= 30s
LINT := .tools/golangci-lint

.PHONY: help check test test-integration test-kafka test-upgrade test-pooler test-interop test-deploy test-rules chaos bench fuzz sbom demo

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 20

check: $(LINT) ## format, vet, lint, and the rules of the house
	@unformatted=$$(git ls-files -co --exclude-standard '*.go' | xargs gofmt -l); \
	  if [ -n "$$unformatted" ]; then echo "run gofmt -w on:"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	$(LINT) run ./...
	go test ./internal/house

test: ## what the README says
	go test ./...

test-integration: test-kafka test-upgrade test-pooler test-interop ## on a real Kafka, with an older relay, behind PgBouncer, and with Node.js

test-kafka:
	go test -tags integration -count=1 ./internal/devkafka ./test/kafka ./test/consumer ./outboxtest ./examples/shop

test-upgrade:
	go test -tags integration -count=1 ./test/upgrade

test-pooler:
	go test -tags integration -count=1 ./internal/devbouncer ./test/pooler

test-interop:
	go test -tags integration -count=1 ./interop

test-deploy: ## the chart, the unit, the compose file, and builds for other systems
	go test -C deploy/check -count=1 .
	CGO_ENABLED=0 GOOS=darwin GOARCH=arm64 go build -o /dev/null ./cmd/outbox
	CGO_ENABLED=0 GOOS=windows GOARCH=amd64 go build -o /dev/null ./cmd/outbox

test-rules: ## the alerts and the dashboard, with Prometheus' own tools
	cd vet/rules && go test -count=1 -tags remove_all_sd .

chaos: ## relays, faults and a judge; SEED=17 MINUTES=30 NODES=3
	OUTBOX_CHAOS_SEED=$(SEED) OUTBOX_CHAOS_MINUTES=$(or $(MINUTES),3) OUTBOX_CHAOS_NODES=$(or $(NODES),1) \
	  go test -tags integration -count=1 -timeout 0 -v -run TestFaultsOfASeed ./test/chaos

bench: ## measure
	go run -C bench .

fuzz: ## each fuzz test for FUZZTIME
	@grep -ro --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sed 's/:func / /' | sort | while read -r file name; do \
	  go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$(dirname "$$file")" </dev/null || exit 1; done

sbom: ## what the program is made of, as dist/outbox.cdx.json
	CGO_ENABLED=0 go build -trimpath -o dist/outbox ./cmd/outbox
	go run github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0 bin -json -output dist/outbox.cdx.json dist/outbox

demo: ## show it all at work
	go run ./cmd/outbox demo

# The tools live in a module of their own, so that their dependencies never reach users.
$(LINT): vet/go.mod vet/go.sum
	cd vet && GOBIN=$(CURDIR)/.tools go install tool
	@touch $@
