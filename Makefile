# The tasks of developers and packagers. `make help` lists them.

PREFIX  ?= /usr/local
DESTDIR ?=
# LINKS=1 also installs the classic names without a prefix: pkt-gen, bridge (also in iproute2), ...
LINKS   ?= 0
SOAK_SECONDS ?= 600
# If empty, the soak runs the build of `make test`, which checks for overflow.
SOAK_BUILD   ?= --release
FUZZ_SECONDS ?= 60
FUZZ_RUNS    ?= 1000000

# SYMBOLS=1 also installs the symbols, for debuggers.
SYMBOLS ?= 0

# The directory in which cargo builds, and its results. BINARY=FILE installs a program that was
# built elsewhere, and the slipring-bench in the same directory, if there is one.
TARGET := $(or $(CARGO_TARGET_DIR),target)
BUILT  := $(TARGET)/release/slipring
BINARY ?= $(BUILT)
BENCH  := $(dir $(BINARY))slipring-bench
# The C library that is installed.
LIBRARY ?= $(TARGET)/release/libslipring.a
# make separates names by spaces. A name with a space would be two names, also for `rm -rf`.
ifneq ($(words $(CURDIR)),1)
$(error the checkout cannot lie in `$(CURDIR)`, which has a space in it: move it, or use cargo alone)
endif
ifneq ($(words $(TARGET)),1)
$(error CARGO_TARGET_DIR cannot have a space in it: name another directory)
endif
ifneq ($(words $(PREFIX)x$(DESTDIR)x$(BINARY)x$(LIBRARY)),1)
$(error PREFIX, DESTDIR, BINARY and LIBRARY cannot have spaces: install below another directory, and move what is to lie there)
endif
# An installation to a system prefix also uses system directories, such as that of systemd. Below
# any other prefix, such as ~/.local, all files are below the prefix.
HERE    := $(abspath $(PREFIX))
SYSTEM  := $(filter / /usr /usr/local /opt /opt/%,$(HERE))
UNITS   ?= $(if $(SYSTEM),/lib/systemd/system,$(HERE)/share/slipring/systemd)
SYSCONF ?= $(if $(SYSTEM),,$(HERE))/etc
# The directory in which debuggers look for symbols.
SYMDIR  ?= $(if $(SYSTEM),/usr/lib/debug,$(HERE)/lib/debug)
# The directories in which Wireshark looks for extcap plug-ins. The distribution's Wireshark has a
# single one. For a user's own plug-ins, 4.0 looks in ~/.config, and 4.4 in ~/.local/lib.
EXTCAP  ?= $(if $(SYSTEM),$(or $(wildcard /usr/lib/*/wireshark/extcap),$(HERE)/lib/wireshark/extcap),$\
	$(HERE)/lib/wireshark/extcap $(if $(filter $(HOME)/%,$(HERE)),$(HOME)/.config/wireshark/extcap))
# The list of installed files, for `make uninstall`.
MADE    := $(HERE)/share/slipring/installed

.DEFAULT_GOAL := help
.PHONY: help demo test ns3 ns3-contrib ns3-figures qemu guest r8169 bench bench-gate soak fuzz mutants lint fmt format clippy tree targets docs release library libslipring libnetmap dist stage install uninstall clean

help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):[^#]*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

demo: ## see packets move: two namespaces and an emulated link between them; no NIC needed
	@scripts/setup.sh demo
	@$(MAKE) --no-print-directory release
	@$(BUILT) demo $(ARGS)

test: ## run every test; the last line counts passed, failed and skipped
	@scripts/setup.sh test
	@scripts/qemu.sh $(TARGET)/qemu || [ $$? = 77 ]
	@scripts/test.sh $(ARGS)

qemu: ## fetch the QEMU that tests of drivers of cards run against; into target, installs nothing
	@scripts/qemu.sh $(TARGET)/qemu

guest: ## take and give back network cards in virtual machines, behind an emulated IOMMU; needs QEMU, and no KVM
	@scripts/setup.sh test
	@scripts/guest.sh $(ARGS)

r8169: ## boot stock kernels whose own r8169 driver takes the model of the card, and guests in which DPDK's driver does
	@scripts/qemu.sh $(TARGET)/qemu
	@cargo test -q -p slipring-rtl-model --test guest -- --test-threads=1

bench: ## measure beside the floors and the peers; docs/benchmarks.md says how to read it
	@scripts/setup.sh bench
	@$(MAKE) --no-print-directory release
	@$(BUILT) bench $(ARGS)

bench-gate: ## count the instructions of the hot loops, which no busy machine blurs
	@scripts/setup.sh gate
	@scripts/bench-gate.sh

soak: ## for SOAK_SECONDS (600) each: gen, bridge, gen, balanced to the packet; hostile programs on the device; changes of routes
	@scripts/setup.sh test
	@SLIPRING_SOAK_SECONDS=$(SOAK_SECONDS) \
		cargo test $(SOAK_BUILD) -q --workspace --test soak -- --ignored --nocapture
	@SLIPRING_SOAK_SECONDS=$(SOAK_SECONDS) \
		cargo test $(SOAK_BUILD) -q --workspace --test daemon hostile -- --nocapture
	@SLIPRING_SOAK_SECONDS=$(SOAK_SECONDS) \
		cargo test $(SOAK_BUILD) -q --workspace --test route soak -- --ignored --nocapture

fuzz: ## fuzz each target for FUZZ_SECONDS (60) or FUZZ_RUNS, whichever ends first
	@scripts/setup.sh fuzz
	@scripts/fuzz.sh $(FUZZ_SECONDS) $(FUZZ_RUNS)

mutants: ## change the code of pure crates in one place at a time, and count what their tests notice; takes hours, SAMPLE=0/20 less
	@scripts/setup.sh test
	@scripts/mutants.sh $(CRATES)

lint: fmt clippy tree docs ## every check that runs no test

# Modules that macros declare. cargo fmt does not find these by itself.
MACRO_MODULES = $(wildcard crates/core/src/kinds/*/mod.rs crates/slipring/src/*.rs crates/slipring/src/*/mod.rs)

fmt: ## check the form of the sources
	cargo fmt --all --check -- $(MACRO_MODULES)

format: ## give the sources their form
	cargo fmt --all -- $(MACRO_MODULES)

clippy: ## check them by clippy, tests included
	cargo clippy --workspace --all-targets -- -D warnings

tree: ## check layers, no_std, unsafe budget, sizes, and sources and licences of dependencies; libslipring with its own features, and with none
	cargo xtask all
	cargo check -q -p slipring-capi --no-default-features
	cargo check -q -p slipring-capi

targets: ## check that facts, formats and engines build for FreeBSD and Windows
	@scripts/targets.sh

docs: ## build the documentation of the code, without a warning, and check that the page of figures and its pictures are those for its numbers
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps
	@python3 ns3/tools/figures_page.py --check ns3/doc/figures/figures.csv ns3/doc/figures.rst

release: ## build the binaries
	@cargo build --release -q -p slipring -p slipring-bench

library:
	@cargo build --release -q -p slipring-capi

libslipring: $(if $(filter file,$(origin LIBRARY)),library) ## build the C library, static and shared; libnetmap is a part of it
	@$(MAKE) --no-print-directory -s -C libnetmap OUT=$(abspath $(TARGET))/libnetmap \
		ARCHIVE=$(abspath $(LIBRARY)) PREFIX=$(PREFIX)

ns3: ## build the ns-3 module against the installed ns-3, or that at NS3_PREFIX=PATH, and run its tests and examples; LIBRARY=FILE and SLIPRING=FILE take a libslipring.a and a program that are built
	@scripts/setup.sh ns3
	@CMAKE_ARGS="-DSLIPRING_SANITIZE=$(SANITIZE) -DSLIPRING_NS3=$(NS3_PREFIX)" scripts/ns3.sh build $(if $(filter file,$(origin LIBRARY)),,$(abspath $(LIBRARY)))
	@cd $(TARGET)/ns3 && ctest --output-on-failure
	@scripts/ns3.sh examples

ns3-figures: ## measure it beside ns-3's stock device, on a machine that does nothing else, and write ns3/doc/figures.rst; 5 minutes; PARTS="udp tcp rtt idle receiving queues writing" measures only these parts again
	@scripts/setup.sh figures
	@cargo build --release -q -p slipring-capi
	@PARTS="$(PARTS)" scripts/ns3.sh figures $(abspath $(TARGET))/release/libslipring.a

ns3-contrib: ## build and test it inside the source tree of ns-3 at NS3=PATH; LIBRARY=FILE takes a libslipring.a that is built
	@scripts/ns3.sh contrib "$(NS3)" $(if $(filter file,$(origin LIBRARY)),,$(abspath $(LIBRARY)))

libnetmap: libslipring ## the same: netmap's C library

dist: $(if $(filter file,$(origin BINARY)),release) libslipring ## strip the binaries, make manual pages and completions, below the target directory
	@[ -f $(BINARY) ] && [ -x $(BINARY) ] || { echo "BINARY=$(BINARY) is no program; without it, slipring is built" >&2; exit 1; }
	@rm -rf $(TARGET)/dist && mkdir -p $(TARGET)/dist/man
	@scripts/strip.sh $(BINARY) $(TARGET)/dist/slipring
	@[ ! -x $(BENCH) ] || scripts/strip.sh $(BENCH) $(TARGET)/dist/slipring-bench
	@$(BINARY) man $(TARGET)/dist/man
	@for shell in bash zsh fish elvish powershell; do \
		$(BINARY) completions $$shell > $(TARGET)/dist/slipring.$$shell || exit 1; \
	done

# Creates a directory with all files as they will be installed.
stage: S     := $(abspath $(TARGET))/stage
stage: BIN   := $(abspath $(TARGET))/stage$(HERE)/bin
stage: SHARE := $(abspath $(TARGET))/stage$(HERE)/share
stage: dist
	@rm -rf $(S)
	@install -D -m 755 $(TARGET)/dist/slipring $(BIN)/slipring
	@[ ! -e $(TARGET)/dist/slipring-bench ] || \
		install -D -m 755 $(TARGET)/dist/slipring-bench $(S)$(HERE)/lib/slipring/slipring-bench
	@[ "$(SYMBOLS)" = 0 ] || for part in bin/slipring lib/slipring/slipring-bench; do \
		symbols=$(TARGET)/dist/$${part##*/}.debug; [ -e $$symbols ] || continue; \
		install -D -m 644 $$symbols $(S)$(SYMDIR)$(HERE)/$$part.debug || exit 1; \
	done
	@for name in $$($(BINARY) names); do \
		ln -sf slipring $(BIN)/slipring-$$name; \
		[ "$(LINKS)" = 0 ] || ln -sf slipring $(BIN)/$$name; \
	done
	@# Its name is nobody else's.
	@ln -sf slipring $(BIN)/slipringd
	@for dir in $(EXTCAP); do \
		install -d $(S)$$dir && ln -sf $(HERE)/bin/slipring $(S)$$dir/slipring-extcap || exit 1; \
	done
	@install -d $(SHARE)/man/man1 $(SHARE)/slipring $(S)$(UNITS) $(S)$(SYSCONF)/slipring
	@install -m 644 $(TARGET)/dist/man/*.1 $(SHARE)/man/man1
	@install -D -m 644 -t $(SHARE)/slipring/schema docs/schema/*.json
	@install -D -m 644 $(TARGET)/dist/slipring.bash $(SHARE)/bash-completion/completions/slipring
	@install -D -m 644 $(TARGET)/dist/slipring.zsh $(SHARE)/zsh/site-functions/_slipring
	@install -D -m 644 $(TARGET)/dist/slipring.fish $(SHARE)/fish/vendor_completions.d/slipring.fish
	@$(MAKE) --no-print-directory -s -C libnetmap install OUT=$(abspath $(TARGET))/libnetmap \
		ARCHIVE=$(abspath $(LIBRARY)) PREFIX=$(HERE) DESTDIR=$(S)
	@for unit in packaging/systemd/*; do \
		sed 's|@BIN@|$(HERE)/bin|' $$unit > $(S)$(UNITS)/$${unit##*/} || exit 1; \
	done
	@install -m 644 packaging/*.example $(S)$(SYSCONF)/slipring
	@touch $(S)$(MADE)

install: stage ## install below DESTDIR/PREFIX: binary, classic names, manual, completions, C library, Wireshark plug-in, systemd units
	@scripts/install.sh put $(abspath $(TARGET))/stage "$(DESTDIR)" $(MADE)
	@echo "installed below $(DESTDIR)$(HERE); make uninstall PREFIX=$(PREFIX) takes it away"
	@$(if $(SYSTEM),,echo "slipringd needs root: sudo systemctl link $(UNITS)/slipringd.* && sudo systemctl start slipringd")

uninstall: ## take away what install has made with the same DESTDIR and PREFIX, and nothing else
	@scripts/install.sh remove "$(DESTDIR)" $(MADE)

clean: ## remove what was built
	cargo clean
