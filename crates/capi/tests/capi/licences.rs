//! Tests that programs under the GPL, version 2, may be linked with the library's dependencies.

use std::path::Path;
use std::process::Command;

use slipring_test_support::tree::{root, stdout};

/// Licences that are compatible with this project's licence, and not more restrictive than the GPL.
const COMPATIBLE: &[&str] = &[
    "MIT",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "0BSD",
    "Zlib",
    "Unlicense",
    "BSL-1.0",
    "CC0-1.0",
    "Unicode-3.0",
    "MIT-0",
];

/// Returns whether licences of [`COMPATIBLE`] satisfy a licence expression: alternatives (OR) of
/// licences that apply together (AND), or `(A) AND B` with alternatives in A and B.
fn is_compatible(expression: &str) -> bool {
    let plain = expression.replace(['(', ')'], " ").replace('/', " OR ");
    let all_of = |part: &str| part.split(" AND ").all(|one| COMPATIBLE.contains(&one.trim()));
    let any_of = |part: &str| part.split(" OR ").any(all_of);
    // If the left side of an AND is in brackets, each side is checked by itself.
    match expression.split_once(") AND ") {
        Some((left, right)) => {
            any_of(&left.replace('(', " ")) && any_of(&right.replace(['(', ')'], " "))
        }
        None => any_of(&plain),
    }
}

/// Returns those crates in the library whose licence is not compatible.
fn foreign(features: &[&str]) -> Vec<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let mut tree = Command::new(cargo);
    tree.args(["tree", "--offline", "-p", "slipring-capi", "-e", "normal", "--prefix", "none"]);
    tree.args(["-f", "{p}|{l}"]).args(features).current_dir(Path::new(root()));
    let tree = stdout(tree.output().unwrap());
    assert!(tree.lines().count() > 20, "{tree}");
    let mut foreign: Vec<_> = tree
        .lines()
        .filter_map(|line| line.trim_end_matches(" (*)").split_once('|'))
        .filter(|(_, licence)| !is_compatible(licence))
        .map(|(name, licence)| format!("{name}: {licence}"))
        .collect();
    foreign.sort();
    foreign.dedup();
    foreign
}

#[test]
fn expressions_are_judged_by_what_one_may_choose() {
    for good in
        ["MIT", "MIT OR Apache-2.0", "Apache-2.0/MIT", "(MIT OR Apache-2.0) AND Unicode-3.0"]
    {
        assert!(is_compatible(good), "{good}");
    }
    for bad in ["Apache-2.0", "Apache-2.0 WITH LLVM-exception", "MIT AND Apache-2.0", "GPL-3.0", ""]
    {
        assert!(!is_compatible(bad), "{bad}");
    }
}

#[test]
fn without_links_and_with_them_all_that_is_linked_goes_together_with_gplv2() {
    assert_eq!(foreign(&["--no-default-features"]), Vec::<String>::new());
    assert_eq!(foreign(&[]), Vec::<String>::new());
}
