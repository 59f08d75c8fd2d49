//! Finds cycles of modules that use each other. Cycles of at most three modules are allowed.
//!
//! A module uses another module if its code names an item that the other module defines: in a
//! `use`, a type, an expression, or the arguments of a macro. A name is followed through re-exports
//! and globs to the module that defines it. `pub use` and `mod` alone do not count as uses, because
//! they only say where items are found. Test code does not count. Method calls do not count,
//! because they name no module.

mod modules;
mod references;

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::Tree;

use modules::Modules;

/// Cycles of up to this many modules are allowed.
const MAX_CIRCLE: usize = 3;

/// For each module, the modules that it uses. Each of these comes with an example: the name of one
/// of its items that are used.
type Graph = BTreeMap<String, BTreeMap<String, String>>;

pub(crate) fn check(tree: &Tree) -> Result<Vec<String>, String> {
    let mut complaints = Vec::new();
    for krate in &tree.crates {
        for root in krate.roots() {
            let graph = references::graph(&Modules::read(&root)?);
            let circles = large_circles(&graph);
            complaints.extend(circles.iter().flat_map(|circle| complaint(&krate.name, circle)));
        }
    }
    Ok(complaints)
}

/// A cycle of modules, and the uses between them.
#[derive(Debug, PartialEq, Eq)]
struct ModuleCycle {
    modules: BTreeSet<String>,
    uses: Vec<String>,
}

/// Returns the lines of the message about a cycle.
fn complaint(krate: &str, circle: &ModuleCycle) -> Vec<String> {
    let modules: Vec<_> = circle.modules.iter().map(String::as_str).collect();
    let head = format!(
        "{krate}: {} modules use each other in a circle, at most {MAX_CIRCLE} may: {}",
        modules.len(),
        modules.join(", "),
    );
    let uses = circle.uses.iter().map(|used| format!("    {used}"));
    [head].into_iter().chain(uses).collect()
}

/// Returns the strongly connected components with more than [`MAX_CIRCLE`] modules.
fn large_circles(graph: &Graph) -> Vec<ModuleCycle> {
    let reach: BTreeMap<_, _> = graph.keys().map(|from| (from, reachable(graph, from))).collect();
    let mut circles = Vec::new();
    let mut seen = BTreeSet::new();
    for (from, reached) in &reach {
        let back = |to: &&String| reach.get(to).is_some_and(|back| back.contains(*from));
        let modules: BTreeSet<String> = reached.iter().filter(back).cloned().collect();
        if modules.len() > MAX_CIRCLE && seen.insert(modules.clone()) {
            let uses = uses_within(graph, &modules);
            circles.push(ModuleCycle { modules, uses });
        }
    }
    circles
}

fn reachable(graph: &Graph, from: &str) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        let next = graph.get(at).into_iter().flat_map(BTreeMap::keys);
        for to in next {
            if reached.insert(to.clone()) {
                open.push(to);
            }
        }
    }
    reached
}

fn uses_within(graph: &Graph, modules: &BTreeSet<String>) -> Vec<String> {
    let inner = graph.iter().filter(|(from, _)| modules.contains(*from));
    let uses = inner.flat_map(|(from, uses)| {
        let uses = uses.iter().filter(|(to, _)| modules.contains(*to));
        uses.map(move |(to, item)| format!("{from} -> {to}: {item}"))
    });
    uses.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(uses: &[(&str, &str)]) -> Graph {
        let mut graph = Graph::new();
        for (from, to) in uses {
            graph.entry((*to).to_owned()).or_default();
            graph.entry((*from).to_owned()).or_default().insert((*to).to_owned(), "X".to_owned());
        }
        graph
    }

    #[test]
    fn a_circle_of_three_is_allowed_and_of_four_is_told_with_what_closes_it() {
        let three = graph(&[("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")]);
        assert!(large_circles(&three).is_empty());
        let four = graph(&[("a", "b"), ("b", "c"), ("c", "d"), ("d", "a"), ("x", "a")]);
        let circles = large_circles(&four);
        assert_eq!(circles.len(), 1);
        assert_eq!(circles[0].modules.len(), 4);
        let lines = complaint("k", &circles[0]);
        assert_eq!(lines[0], "k: 4 modules use each other in a circle, at most 3 may: a, b, c, d");
        assert_eq!(lines[1], "    a -> b: X");
    }

    #[test]
    fn circles_that_meet_in_a_module_are_one() {
        let eight =
            graph(&[("a", "b"), ("b", "a"), ("b", "c"), ("c", "b"), ("c", "d"), ("d", "c")]);
        assert_eq!(large_circles(&eight)[0].modules.len(), 4);
    }
}
