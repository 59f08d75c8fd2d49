//! Tests that the tables of port kinds in the documents equal the descriptions of the kinds in the
//! code. `SLIPRING_BLESS=1` rewrites the tables.

use slipring_abi::name::kind;
use slipring_core::kinds::{self, InterfaceUse};
use slipring_test_support::{golden, tree};

const BEGIN: &str =
    "<!-- port kinds, written by SLIPRING_BLESS=1 cargo test -p slipring kinds -->\n";
const END: &str = "<!-- end of port kinds -->\n";

fn holds_table(document: &str, table: &str) {
    let path = tree::root().join(document);
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("a place for the table");
    let (found, after) = rest.split_once(END).expect("an end of the table");
    if golden::is_blessing() {
        return std::fs::write(path, [before, BEGIN, table, END, after].concat()).unwrap();
    }
    assert_eq!(found, table, "{document}");
}

#[test]
fn the_readme_lists_the_names_of_every_kind() {
    holds_table("README.md", &kinds::markdown());
}

#[test]
fn the_design_page_lists_what_every_kind_has() {
    let mut table = String::from(
        "| word | after the colon | features | kept after opening | taken from the host | when the daemon starts again |\n\
         |---|---|---|---|---|---|\n",
    );
    for (kind, driver) in kinds::all() {
        let (grammar, facts) = (kind.grammar(), driver.facts());
        let features = features(grammar.features);
        let kept: Vec<_> =
            facts.keeps.iter_names().map(|(name, _)| format!("CAP_{name}")).collect();
        let kept = if kept.is_empty() { "nothing".to_owned() } else { kept.join(", ") };
        let taken = match facts.interface {
            InterfaceUse::None => "nothing",
            InterfaceUse::Whole => "the interface",
            InterfaceUse::UnlessShared => "the interface, unless `--shared`",
            InterfaceUse::IfInterface => "the interface, if it names one",
        };
        let restart = facts.restart.in_words();
        table += &format!(
            "| `{}` | {:?} | {features} | {kept} | {taken} | {restart} |\n",
            grammar.word, grammar.form
        );
    }
    holds_table("docs/design/port-kinds.md", &table);
}

fn features(set: u8) -> String {
    let known = [
        (kind::PIPES, "PIPES"),
        (kind::HOST_RINGS, "HOST_RINGS"),
        (kind::RING_PAIRS, "RING_PAIRS"),
        (kind::ON_DEVICE, "ON_DEVICE"),
        (kind::DEVICE_PATH, "DEVICE_PATH"),
        (kind::PLANNED, "PLANNED"),
    ];
    let names = known.iter().filter(|(feature, _)| set & feature != 0);
    let names: Vec<_> = names.map(|(_, name)| format!("`{name}`")).collect();
    if names.is_empty() { "`NONE`".to_owned() } else { names.join(", ") }
}
