//! Which crate may use which: the table of the layers, and the rule.
//!
//! A crate uses only crates listed before it. Parts and engines use only facts and parts, so that
//! no memory, port or clock creeps into them; no program uses another. Tests may use anything.

use crate::tree::Tree;

/// What a crate is in the order of things.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layer {
    /// L0: numbers and formats.
    Facts,
    /// L1: shared memory.
    Memory,
    /// L2: what several engines need.
    Part,
    /// L2: pure logic.
    Engine,
    /// L3: ports of every kind.
    Port,
    /// L4: the host of regions, ports, flags and reports.
    Host,
    /// L5: programs, and what measures or checks them.
    Program,
    /// L6: what programs in other languages are given.
    Binding,
}

/// Every crate, known or planned, in the order in which they may use each other.
const TABLE: &[(&str, Layer)] = &[
    ("slipring-abi", Layer::Facts),
    ("slipring-wire", Layer::Facts),
    ("slipring-pcap", Layer::Facts),
    ("slipring-ring", Layer::Memory),
    ("slipring-native-proto", Layer::Memory),
    ("slipring-model", Layer::Part),
    ("slipring-classify", Layer::Part),
    ("slipring-filter", Layer::Part),
    ("slipring-nat", Layer::Part),
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
    ("slipring-port", Layer::Port),
    ("slipring-vhost", Layer::Port),
    ("slipring-core", Layer::Host),
    ("slipring-netmap", Layer::Host),
    ("slipring-nic-provider", Layer::Host),
    ("slipring-fuse", Layer::Host),
    ("slipring-control", Layer::Host),
    ("slipring-cli", Layer::Host),
    ("slipring-top", Layer::Host),
    ("slipring-wasm", Layer::Host),
    ("slipring-web", Layer::Host),
    ("slipring-vale", Layer::Host),
    ("slipring-daemon", Layer::Host),
    ("slipring-datapath", Layer::Host),
    ("slipring-emulation", Layer::Host),
    ("slipring-dump", Layer::Host),
    ("slipring-firewall", Layer::Host),
    ("slipring", Layer::Program),
    ("slipring-compat-tests", Layer::Program),
    ("slipring-bench", Layer::Program),
    ("xtask", Layer::Program),
    ("slipring-capi", Layer::Binding),
];

pub(crate) fn check(tree: &Tree) -> Result<Vec<String>, String> {
    let edges = tree.crates.iter().flat_map(|krate| {
        let ours = krate.needs.iter().filter(|name| is_ours(tree, name));
        ours.map(|needed| (krate.name.as_str(), needed.as_str()))
    });
    let unknown = tree
        .crates
        .iter()
        .filter(|krate| place(&krate.name).is_none())
        .map(|krate| format!("{} is not in the table of layers", krate.name));
    Ok(unknown.chain(edges.filter_map(|(from, to)| fault(from, to))).collect())
}

/// The layer of a crate.
pub(crate) fn layer_of(name: &str) -> Option<Layer> {
    place(name).map(|(_, layer)| layer)
}

fn is_ours(tree: &Tree, name: &str) -> bool {
    tree.crates.iter().any(|krate| krate.name == name)
}

fn place(name: &str) -> Option<(usize, Layer)> {
    let at = TABLE.iter().position(|(listed, _)| *listed == name)?;
    Some((at, TABLE[at].1))
}

/// What is wrong with `from` using `to`.
fn fault(from: &str, to: &str) -> Option<String> {
    let ((from_at, from_layer), (to_at, to_layer)) = (place(from)?, place(to)?);
    let is_pure = matches!(from_layer, Layer::Part | Layer::Engine);
    let why = if is_pure && !matches!(to_layer, Layer::Facts | Layer::Part) {
        "a part or engine uses only facts (L0) and parts (L2)"
    } else if from_layer == Layer::Program && to_layer == Layer::Program {
        "no program uses another"
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
    fn no_program_uses_another() {
        let found = faults(&[("slipring-bench", &["slipring"]), ("slipring", &[])]);
        assert_eq!(found, ["slipring-bench uses slipring: no program uses another"]);
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
