//! Checks which crate uses which, by the table of layers and its rules.
//!
//! A crate may use only crates that are above it in the table. Parts and engines may use only facts
//! and other parts, so that they contain no memory mappings, ports or clocks. Hosts must not use
//! command lines and reports, which are services for all programs. A program may use another
//! program only if `PROGRAM_USES` has a reason. Crates with helpers for tests use no other crate of
//! the workspace. Dev-dependencies are not checked.

use crate::tree::Tree;

/// The layer to which a crate belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layer {
    /// L0: numbers and formats.
    Facts,
    /// L1: shared memory, and rings in it.
    Memory,
    /// L2: logic that several engines need.
    Part,
    /// L2: the logic of a program, without ports, clocks and threads.
    Engine,
    /// L3: ports of every kind.
    Port,
    /// L4: code that opens ports and serves netmap's interface.
    Host,
    /// L4: code that programs share: flags, reports, control sockets, screens, workers.
    Service,
    /// L5: programs, the binary that contains them, and programs that measure or check them.
    Program,
    /// L6: libraries for programs in other languages.
    Binding,
    /// Outside the layers: code that the tests of several crates share.
    Tests,
}

/// All crates, existing or planned. A crate may use the crates above it.
const TABLE: &[(&str, Layer)] = &[
    ("slipring-abi", Layer::Facts),
    ("slipring-simd", Layer::Facts),
    ("slipring-wire", Layer::Facts),
    ("slipring-pcap", Layer::Facts),
    ("slipring-rtnetlink", Layer::Facts),
    ("slipring-ring", Layer::Memory),
    ("slipring-native-proto", Layer::Memory),
    ("slipring-model", Layer::Part),
    ("slipring-classify", Layer::Part),
    ("slipring-filter", Layer::Part),
    ("slipring-nat", Layer::Part),
    ("slipring-neighbour", Layer::Part),
    ("slipring-fib", Layer::Part),
    ("slipring-switch", Layer::Engine),
    ("slipring-link", Layer::Engine),
    ("slipring-gateway", Layer::Engine),
    ("slipring-ipfw", Layer::Engine),
    ("slipring-dummynet", Layer::Engine),
    ("slipring-route", Layer::Engine),
    ("slipring-traffic", Layer::Engine),
    ("slipring-balance", Layer::Engine),
    ("slipring-dedup", Layer::Engine),
    ("slipring-confine", Layer::Port),
    ("slipring-bpf", Layer::Port),
    ("slipring-port", Layer::Port),
    ("slipring-vhost", Layer::Port),
    ("slipring-pci", Layer::Port),
    ("slipring-drivers", Layer::Port),
    ("slipring-route-bpf", Layer::Port),
    ("slipring-privileged", Layer::Host),
    ("slipring-core", Layer::Host),
    ("slipring-netmap", Layer::Host),
    ("slipring-nic-provider", Layer::Host),
    ("slipring-fuse", Layer::Host),
    ("slipring-control", Layer::Service),
    ("slipring-cli", Layer::Service),
    ("slipring-top", Layer::Service),
    ("slipring-wasm", Layer::Service),
    ("slipring-web", Layer::Service),
    ("slipring-datapath", Layer::Service),
    ("slipring-rules", Layer::Service),
    ("slipring-vale", Layer::Program),
    ("slipring-nic", Layer::Program),
    ("slipring-daemon", Layer::Program),
    ("slipring-emulation", Layer::Program),
    ("slipring-dump", Layer::Program),
    ("slipring-firewall", Layer::Program),
    ("slipring-router", Layer::Program),
    ("slipring", Layer::Program),
    ("slipring-compat-tests", Layer::Program),
    ("slipring-rtl-model", Layer::Program),
    ("slipring-bench", Layer::Program),
    ("xtask", Layer::Program),
    ("slipring-capi", Layer::Binding),
    // No crate may use this one, except as a dev-dependency, which is not checked.
    ("slipring-test-support", Layer::Tests),
];

/// The programs that may use another program, each with the reason.
const PROGRAM_USES: &[(&str, &str, &str)] = &[
    (
        "slipring-daemon",
        "slipring-vale",
        "the switches that its settings describe are set up as `vale` does it",
    ),
    ("slipring", "slipring-vale", "the binary holds the command"),
    (
        "slipring",
        "slipring-nic",
        "the binary holds the command, and others say which cards have a driver",
    ),
    ("slipring", "slipring-daemon", "the binary holds the command"),
    (
        "slipring",
        "slipring-emulation",
        "the binary holds the command, and `run` and `replay` have its links",
    ),
    ("slipring", "slipring-dump", "the binary holds the command"),
    ("slipring", "slipring-firewall", "the binary holds the commands"),
    ("slipring", "slipring-router", "the binary holds the command"),
    (
        "slipring-bench",
        "slipring-emulation",
        "the loop of the emulator is measured without a process around it",
    ),
    (
        "slipring-bench",
        "slipring-rtl-model",
        "a driver is measured on the model of its card, which is in the same process",
    ),
];

pub(crate) fn check(tree: &Tree) -> Result<Vec<String>, String> {
    let edges: Vec<_> = tree
        .crates
        .iter()
        .flat_map(|krate| {
            let ours = krate.needs.iter().filter(|name| is_ours(tree, name));
            ours.map(|needed| (krate.name.as_str(), needed.as_str()))
        })
        .collect();
    let unused = unused_uses(tree, &edges);
    let unknown = tree
        .crates
        .iter()
        .filter(|krate| layer_of(&krate.name).is_none())
        .map(|krate| format!("{} is not in the table of layers", krate.name));
    let wrong = edges.iter().filter_map(|(from, to)| fault(from, to));
    Ok(unknown.chain(wrong).chain(unused).collect())
}

/// Returns the entries of [`PROGRAM_USES`] that no manifest needs any more.
fn unused_uses(tree: &Tree, edges: &[(&str, &str)]) -> Vec<String> {
    let here = |(from, to, _): &&(&str, &str, &str)| is_ours(tree, from) && is_ours(tree, to);
    PROGRAM_USES
        .iter()
        .filter(here)
        .filter(|(from, to, _)| !edges.contains(&(*from, *to)))
        .map(|(from, to, _)| format!("{from} uses {to} no more: take it out of PROGRAM_USES"))
        .collect()
}

fn is_listed_use(from: &str, to: &str) -> bool {
    PROGRAM_USES.iter().any(|(user, used, _)| (*user, *used) == (from, to))
}

/// Returns the layer of a crate; `None` if the crate is not in the table.
pub(crate) fn layer_of(name: &str) -> Option<Layer> {
    table_row(name).map(|(_, layer)| layer)
}

fn is_ours(tree: &Tree, name: &str) -> bool {
    tree.crates.iter().any(|krate| krate.name == name)
}

fn table_row(name: &str) -> Option<(usize, Layer)> {
    let at = TABLE.iter().position(|(listed, _)| *listed == name)?;
    Some((at, TABLE[at].1))
}

/// Returns why `from` must not use `to`; `None` if it may.
fn fault(from: &str, to: &str) -> Option<String> {
    let ((from_at, from_layer), (to_at, to_layer)) = (table_row(from)?, table_row(to)?);
    let is_pure = matches!(from_layer, Layer::Part | Layer::Engine);
    let why = if to_layer == Layer::Tests {
        "test helpers are a dev-dependency, and no part of a program"
    } else if from_layer == Layer::Tests {
        "test helpers use no crate of ours: each can use them, and none is built twice"
    } else if is_pure && !matches!(to_layer, Layer::Facts | Layer::Part) {
        "a part or engine uses only facts (L0) and parts (L2)"
    } else if (from_layer, to_layer) == (Layer::Program, Layer::Program) && !is_listed_use(from, to)
    {
        "no program uses another, but by PROGRAM_USES with a reason"
    } else if to_at >= from_at {
        "a crate uses only crates that stand before it in the table"
    } else {
        return None;
    };
    Some(format!("{from} uses {to}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Crate;

    fn tree(crates: &[(&str, &[&str])]) -> Tree {
        let make = |(name, needs): &(&str, &[&str])| Crate {
            name: (*name).to_owned(),
            dir: "/".into(),
            needs: needs.iter().map(|need| (*need).to_owned()).collect(),
        };
        Tree { root: "/".into(), crates: crates.iter().map(make).collect() }
    }

    fn faults(crates: &[(&str, &[&str])]) -> Vec<String> {
        check(&tree(crates)).unwrap()
    }

    #[test]
    fn downward_arrows_and_foreign_crates_are_fine() {
        let fine: &[(&str, &[&str])] = &[
            ("slipring-abi", &["thiserror"]),
            ("slipring-ring", &["slipring-abi", "rustix"]),
            ("slipring-model", &["libm"]),
            ("slipring-traffic", &["slipring-abi", "slipring-model"]),
            ("slipring-port", &["slipring-ring", "slipring-abi", "slipring-model"]),
            ("slipring", &["slipring-port", "slipring-traffic"]),
        ];
        assert_eq!(faults(fine), Vec::<String>::new());
    }

    #[test]
    fn test_helpers_are_used_by_tests_only_and_use_nothing_of_ours() {
        let helpers = ("slipring-test-support", &["tempfile"] as &[&str]);
        assert_eq!(faults(&[("slipring-ring", &[]), helpers]), Vec::<String>::new());
        let found = faults(&[("slipring-ring", &["slipring-test-support"]), helpers]);
        assert!(found.len() == 1 && found[0].contains("a dev-dependency"), "{found:?}");
        let found =
            faults(&[("slipring-ring", &[]), ("slipring-test-support", &["slipring-ring"])]);
        assert!(found.len() == 1 && found[0].contains("no crate of ours"), "{found:?}");
    }

    #[test]
    fn an_upward_arrow_is_wrong() {
        let found = faults(&[("slipring-abi", &["slipring-ring"]), ("slipring-ring", &[])]);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("slipring-abi uses slipring-ring: "));
    }

    #[test]
    fn an_engine_uses_neither_memory_nor_another_engine() {
        for needed in ["slipring-ring", "slipring-switch", "slipring-dedup", "slipring-port"] {
            let found = faults(&[("slipring-traffic", &[needed]), (needed, &[])]);
            assert_eq!(found.len(), 1, "{needed}");
            assert!(found[0].contains("only facts (L0) and parts (L2)"), "{found:?}");
        }
        let part = faults(&[("slipring-model", &["slipring-ring"]), ("slipring-ring", &[])]);
        assert_eq!(part.len(), 1);
    }

    #[test]
    fn a_part_uses_only_parts_before_it() {
        let forth: &[(&str, &[&str])] =
            &[("slipring-filter", &["slipring-model"]), ("slipring-model", &[])];
        assert!(faults(forth).is_empty());
        let back: &[(&str, &[&str])] =
            &[("slipring-model", &["slipring-filter"]), ("slipring-filter", &[])];
        assert_eq!(faults(back).len(), 1);
    }

    #[test]
    fn no_program_uses_another_but_by_the_list() {
        for (from, to) in [
            ("slipring-bench", "slipring"),
            ("slipring-firewall", "slipring-emulation"),
            ("slipring-emulation", "slipring-daemon"),
            ("slipring-compat-tests", "slipring"),
        ] {
            let found = faults(&[(from, &[to]), (to, &[])]);
            let why = "no program uses another, but by PROGRAM_USES with a reason";
            assert_eq!(found, [format!("{from} uses {to}: {why}")]);
        }
        let listed: &[(&str, &[&str])] =
            &[("slipring-daemon", &["slipring-vale"]), ("slipring-vale", &[])];
        assert!(faults(listed).is_empty());
    }

    #[test]
    fn a_listed_use_that_is_no_use_any_more_is_named() {
        let found = faults(&[("slipring-daemon", &[]), ("slipring-vale", &[])]);
        let why = "take it out of PROGRAM_USES";
        assert_eq!(found, [format!("slipring-daemon uses slipring-vale no more: {why}")]);
    }

    #[test]
    fn the_host_uses_no_service_and_no_service_a_program() {
        for (from, to) in [
            ("slipring-netmap", "slipring-cli"),
            ("slipring-core", "slipring-datapath"),
            ("slipring-datapath", "slipring-emulation"),
        ] {
            let found = faults(&[(from, &[to]), (to, &[])]);
            assert_eq!(found.len(), 1, "{from} {to}");
        }
    }

    #[test]
    fn every_listed_use_is_of_programs_of_the_table() {
        for (from, to, why) in PROGRAM_USES {
            assert!(!why.is_empty());
            let layers = [from, to].map(|name| layer_of(name));
            assert_eq!(layers, [Some(Layer::Program); 2], "{from} {to}");
        }
    }

    #[test]
    fn a_crate_without_a_layer_is_named() {
        assert_eq!(
            faults(&[("slipring-utils", &[])]),
            ["slipring-utils is not in the table of layers"]
        );
    }

    #[test]
    fn the_table_rises_by_layers() {
        let ranks: Vec<_> = TABLE.iter().map(|(_, layer)| *layer as u8).collect();
        assert!(ranks.is_sorted());
    }
}
