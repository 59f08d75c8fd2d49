# Everything a person does with the tree. `make help` lists it.

PREFIX  ?= /usr/local
DESTDIR ?=
# LINKS=1 also installs the classic names bare: pkt-gen, bridge (iproute2 has one too), ...
LINKS   ?= 0
SOAK_SECONDS ?= 600
# Empty: what `make test` has built, with its checks for overflow.
SOAK_BUILD   ?= --release
FUZZ_SECONDS ?= 60
FUZZ_RUNS    ?= 1000000

# Where cargo builds, and what it builds there.
TARGET  := $(or $(CARGO_TARGET_DIR),target)
BINARY  := $(TARGET)/release/slipring
BIN     := $(DESTDIR)$(PREFIX)/bin
SHARE   := $(DESTDIR)$(PREFIX)/share
MAN     := $(SHARE)/man/man1
# The machine's own, whatever the prefix: systemd and the daemon look there.
UNITS   ?= $(DESTDIR)/lib/systemd/system
SYSCONF ?= $(DESTDIR)/etc
# Where Wireshark looks for plug-ins that capture: with PREFIX=~/.local its own user's directory.
EXTCAP  ?= $(DESTDIR)$(PREFIX)/lib/wireshark/extcap

.DEFAULT_GOAL := help
.PHONY: help demo test bench bench-gate soak fuzz lint fmt clippy tree docs release libnetmap dist install clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

demo: ## see packets move: two namespaces and an emulated link between them; no NIC needed
	@scripts/setup.sh demo
	@$(MAKE) --no-print-directory release
	@$(BINARY) demo $(ARGS)

test: ## run every test; the last line counts passed, failed and skipped
	@scripts/setup.sh test
	@scripts/test.sh $(ARGS)

bench: ## measure beside the floors and the peers; docs/benchmarks.md says how to read it
	@scripts/setup.sh bench
	@$(MAKE) --no-print-directory release
	@$(BINARY) bench $(ARGS)

bench-gate: ## count the instructions of the hot loops, which no busy machine blurs
	@scripts/setup.sh gate
	@scripts/bench-gate.sh

soak: ## for SOAK_SECONDS (600) each: gen, bridge, gen, balanced to the packet; hostile programs on the device
	@scripts/setup.sh test
	@SLIPRING_SOAK_SECONDS=$(SOAK_SECONDS) \
		cargo test $(SOAK_BUILD) -q --workspace --test soak -- --ignored --nocapture
	@SLIPRING_SOAK_SECONDS=$(SOAK_SECONDS) \
		cargo test $(SOAK_BUILD) -q --workspace --test daemon hostile -- --nocapture

fuzz: ## fuzz each target for FUZZ_SECONDS (60) or FUZZ_RUNS, whichever ends first
	@scripts/setup.sh fuzz
	@scripts/fuzz.sh $(FUZZ_SECONDS) $(FUZZ_RUNS)

lint: fmt clippy tree docs ## every check that runs no test

fmt: ## check the form of the sources
	cargo fmt --all --check

clippy: ## check them by clippy, tests included
	cargo clippy --workspace --all-targets -- -D warnings

tree: ## check layers, no_std, unsafe budget and sizes
	cargo xtask all

docs: ## build the documentation of the code, without a warning
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

release: ## build the binary
	@cargo build --release -q -p slipring

libnetmap: ## build netmap's C library, static and shared
	@$(MAKE) --no-print-directory -s -C libnetmap OUT=$(abspath $(TARGET))/libnetmap PREFIX=$(PREFIX)

dist: release libnetmap ## make manual pages and completions below the target directory
	@rm -rf $(TARGET)/dist && mkdir -p $(TARGET)/dist/man
	@$(BINARY) man $(TARGET)/dist/man
	@for shell in bash zsh fish elvish powershell; do \
		$(BINARY) completions $$shell > $(TARGET)/dist/slipring.$$shell || exit 1; \
	done

install: dist ## install below DESTDIR/PREFIX: binary, classic names, manual, completions, C library, Wireshark plug-in, systemd units
	install -D -m 755 $(BINARY) $(BIN)/slipring
	@for name in $$($(BINARY) names); do \
		ln -sf slipring $(BIN)/slipring-$$name; \
		[ "$(LINKS)" = 0 ] || ln -sf slipring $(BIN)/$$name; \
	done
	@# Its name is nobody else's.
	ln -sf slipring $(BIN)/slipringd
	install -d $(EXTCAP)
	ln -sf $(abspath $(PREFIX))/bin/slipring $(EXTCAP)/slipring-extcap
	install -d $(MAN)
	install -m 644 $(TARGET)/dist/man/*.1 $(MAN)
	install -D -m 644 $(TARGET)/dist/slipring.bash $(SHARE)/bash-completion/completions/slipring
	install -D -m 644 $(TARGET)/dist/slipring.zsh $(SHARE)/zsh/site-functions/_slipring
	install -D -m 644 $(TARGET)/dist/slipring.fish $(SHARE)/fish/vendor_completions.d/slipring.fish
	@$(MAKE) --no-print-directory -s -C libnetmap install OUT=$(abspath $(TARGET))/libnetmap \
		PREFIX=$(PREFIX) DESTDIR=$(DESTDIR)
	install -d $(UNITS) $(SYSCONF)/slipring
	sed 's|@BIN@|$(abspath $(PREFIX))/bin|' packaging/systemd/slipringd.service > $(UNITS)/slipringd.service
	install -m 644 packaging/systemd/slipringd.socket $(UNITS)
	install -m 644 packaging/daemon.toml.example $(SYSCONF)/slipring

clean: ## remove what was built
	cargo clean
