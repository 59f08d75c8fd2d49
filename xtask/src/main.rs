//! Checks of the source tree. `README.md` says what each check guarantees.
//!
//! Every check returns the lines of its complaints. An empty list means success.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod comments;
mod cycles;
mod dependencies;
mod documents;
mod layers;
mod lent_memory;
mod no_std;
mod sizes;
mod source;
mod tree;
mod unsafe_budget;
mod words;

use std::process::ExitCode;

use tree::Tree;

type Check = fn(&Tree) -> Result<Vec<String>, String>;

const CHECKS: [(&str, Check); 9] = [
    ("layers", layers::check),
    ("no-std", no_std::check),
    ("unsafe-budget", unsafe_budget::check),
    ("lent-memory", lent_memory::check),
    ("sizes", sizes::check),
    ("dependencies", dependencies::check),
    ("cycles", cycles::check),
    ("words", words::check),
    ("documents", documents::check),
];

fn main() -> ExitCode {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let chosen: Vec<_> =
        CHECKS.iter().filter(|(name, _)| wanted == "all" || wanted == *name).collect();
    if chosen.is_empty() {
        let names: Vec<_> = CHECKS.iter().map(|(name, _)| *name).collect();
        eprintln!("usage: cargo xtask {}|all", names.join("|"));
        return ExitCode::from(2);
    }
    match run(&chosen) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the checks. Returns whether all of them have succeeded.
fn run(checks: &[&(&str, Check)]) -> Result<bool, String> {
    let tree = Tree::load()?;
    let mut content = true;
    for (name, check) in checks {
        let complaints = check(&tree)?;
        for complaint in &complaints {
            eprintln!("{name}: {complaint}");
        }
        if complaints.is_empty() {
            println!("{name}: ok");
        }
        content &= complaints.is_empty();
    }
    Ok(content)
}
