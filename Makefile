# cantina: everything a person or a CI run does, one target each.
#   make demo    the main job on real input, on this machine
#   make demo-ui three servers and one web UI over them
#   make test    real processes, faults, CLI scripts, the web UI in Chromium
#   make deps    install what the tests and checks need
#   make check   format, vet, staticcheck, rules, generated files, unit tests with -race, simulator
#   make soak    the long forms of all tests
#   make dist    archives, Debian packages, container images, bills of materials and checksums in dist/
#   make bench   the figures of docs/design/performance.md
#   make mutate  small changes of the pure packages that no test notices

SHELL      := /bin/bash
# One way to compile for programs, tests and checks: each package is compiled once (and once for the race detector).
export CGO_ENABLED := 0
export GOFLAGS     := $(strip $(GOFLAGS) -trimpath)
GO         ?= go
BIN        := bin
VERSION    ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT     ?= $(shell git rev-parse HEAD 2>/dev/null)
LDFLAGS    := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)
REAPER     := executor/reaperbin/cantina-reaper
SIM_TIME   ?= 20s
N          ?= 100
PURE       := lrp task worker workerset placement batch schedule cron fence
# The first seed is the commit's, so that each commit runs seeds of its own, and the same ones again.
SIM_SEED   ?= $(shell printf %d 0x$$(git rev-parse --short=8 HEAD 2>/dev/null || echo 1))
GOSOURCES  := $(shell find . -name '*.go' -not -path './.git/*' -not -path './node_modules/*' 2>/dev/null)
# Files that are embedded.
EMBEDDED   := $(wildcard ui/dist/* zone/zoneinfo.*)
# Packages whose tests start real processes or take real time; the rest is checked with -race.
REAL       := cantina/executor cantina/executor/% cantina/test/% cantina/cmd/% cantina/store/etcd cantina/bench cantina/examples/% \
	cantina/logstore cantina/cgroup cantina/spawn cantina/spawn/%
UNIT        = $(filter-out $(REAL),$(shell $(GO) list ./...)) cantina/logstore cantina/executor/step
REALPKGS    = $(filter $(REAL),$(shell $(GO) list ./...))

# Of the tests of whole clusters, what runs a second time with workloads of a user without privileges;
# those of the executor all do, and the scripts do it by themselves.
AS_USER    := Verdicts|Output|Grandchildren|Trap|DrainMoves|DrainWaits|DrainOf|Finished|Adopted|KilledCell

# Debian packages that the tests and the checks need.
TESTED     := iproute2 procps git fuse3 chromium
CHECKED    := protobuf-compiler libprotobuf-dev git

# Tests that count what is allocated: they run without the race detector.
HEAP       := MemoryIsFreed|TooManyValues
# What no user changes, and takes long.
NO_USER    := ThreadsComeAndGo|ChecksLeaveNothing|BigOutput
# The half of make test that runs whole clusters.
CLUSTERS   := cantina/test/robust cantina/test/stories
HEAPPKGS   := $(addprefix cantina/,executor internal/node api spec bbs/callback internal/link internal/mux image)

.PHONY: dist ui ui-check all build demo demo-ui test test-clusters test-machine check soak sim bench generate generated fmt tidy vet lint arch unit race container-build clean mutate deps need missing

all: build

build: $(BIN)/cantina

$(REAPER): $(GOSOURCES) go.mod go.sum
	$(GO) build -ldflags='-s -w' -o $@ ./cmd/cantina-reaper

$(BIN)/cantina: $(REAPER) $(GOSOURCES) $(EMBEDDED) go.mod go.sum
	@mkdir -p $(BIN)
	$(GO) build -ldflags='$(LDFLAGS)' -o $@ ./cmd/cantina

$(BIN)/cantina-demo: $(wildcard examples/demo/*.go) go.mod
	@mkdir -p $(BIN)
	$(GO) build -ldflags='-s -w -X main.goroot=$(shell $(GO) env GOROOT)' -o $@ ./examples/demo

# dist makes the files of a release; the same commit and toolchain give the same bytes.
dist:
	$(GO) run ./cmd/cantina-dist --version '$(VERSION)' --commit '$(COMMIT)'

# deps installs what the tests and checks need: Debian packages, and npm packages of the web UI.
deps:
	@scripts/need $(TESTED) $(CHECKED)
	scripts/ui packages

need:
	@scripts/need $(TESTED)

demo: $(BIN)/cantina $(BIN)/cantina-demo
	@$(BIN)/cantina-demo run --cantina $(BIN)/cantina --spec examples/demo/cantina.yaml

# demo-ui starts three servers and one web UI over them, until Ctrl-C.
demo-ui: $(BIN)/cantina $(BIN)/cantina-demo
	@$(BIN)/cantina-demo ui --cantina $(BIN)/cantina --spec examples/demo/shard.yaml

# test runs its two halves one after the other: tests of real processes disturb each other on two processors.
test: need $(BIN)/cantina $(BIN)/cantina-demo
	scripts/ui packages
	$(MAKE) --no-print-directory test-machine
	$(MAKE) --no-print-directory test-clusters

# test-clusters tests servers and cells: faults, and a day of a user.
test-clusters:
	$(GO) test -vet=off -count=1 -p 1 -timeout 25m $(CLUSTERS)
	[ $$(id -u) != 0 ] || CANTINA_TEST_USER=65534:65534 $(GO) test -vet=off -count=1 -timeout 15m -run '$(AS_USER)' cantina/test/robust

# test-machine tests all else: containers, the store, the command line, the web UI.
test-machine:
	$(GO) test -vet=off -count=1 -p 1 -parallel 4 -timeout 20m -skip '$(HEAP)' $(filter-out $(CLUSTERS),$(REALPKGS))
	$(GO) test -vet=off -count=1 -timeout 8m -run '$(HEAP)' $(HEAPPKGS)
	[ $$(id -u) != 0 ] || CANTINA_TEST_USER=65534:65534 $(GO) test -vet=off -count=1 -short -parallel 4 -timeout 15m -skip '$(HEAP)|$(NO_USER)' cantina/executor

# check installs nothing: make deps does.
check: missing $(REAPER) fmt tidy vet lint arch generated ui-check race sim

missing:
	@scripts/need --check $(CHECKED)

fmt:
	@out=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$out" ]; then echo "not gofmt-ed:"; echo "$$out"; exit 1; fi

tidy:
	@$(GO) mod tidy -diff || { echo "go.mod is not tidy: run go mod tidy"; exit 1; }

vet: $(REAPER)
	$(GO) vet ./...

lint: $(REAPER)
	$(GO) tool staticcheck ./...

arch:
	$(GO) test -vet=off -count=1 ./internal/arch

unit: $(REAPER)
	$(GO) test $(UNIT)

# check runs the rules by themselves, and vet.
race: $(REAPER)
	CGO_ENABLED=1 $(GO) test -vet=off -race -short -timeout 12m $(filter-out cantina/internal/arch,$(UNIT))

sim:
	$(GO) run ./cmd/cantina sim --draw --seed $(SIM_SEED) --for $(SIM_TIME)

generate:
	scripts/generate

# ui builds the web UI; ui-check fails if the committed files are not what that builds.
ui:
	scripts/ui

ui-check:
	@scripts/ui --check

generated:
	@scripts/generate --check

soak: need $(BIN)/cantina $(BIN)/cantina-demo
	scripts/ui packages
	CANTINA_SOAK=1 $(GO) test -count=1 -timeout 8h ./...
	$(GO) run ./cmd/cantina sim --draw --seed $$(date +%s) --for 10m

bench: $(BIN)/cantina
	scripts/bench

# mutate makes small changes of the pure packages and reports those that no test notices.
#   make mutate N=0 ARGS='-match lrp/step.go'
mutate:
	$(GO) run ./internal/mutate/run -n $(N) $(ARGS) $(addprefix ./,$(PURE))

container-build:
	scripts/container-build

clean:
	rm -rf $(BIN) $(REAPER)
