//! Checks that what documents refer to exists: source files (such as `ring/src/pipe.rs`, which is
//! below `crates`, or `xtask/src/main.rs`), and the tests that SPECIFICATION.md names for each
//! promise.

use std::collections::BTreeSet;
use std::path::Path;

use syn::visit::{self, Visit};

use crate::source::Source;
use crate::tree::{Tree, read_text};

pub(crate) fn check(tree: &Tree) -> Result<Vec<String>, String> {
    let mut complaints = Vec::new();
    for path in tree.documents()? {
        let text = read_text(&path)?;
        let name = tree.relative(&path).display().to_string();
        let missing = code_spans(&text).filter(|span| is_missing(&tree.root, span));
        complaints.extend(missing.map(|span| format!("{name}: there is no {span}")));
    }
    let promises = read_text(&tree.root.join("SPECIFICATION.md"))?;
    let tests = tests_of(tree)?;
    let missing = promised_tests(&promises).filter(|test| !tests.contains(*test));
    complaints.extend(missing.map(|test| format!("SPECIFICATION.md: there is no test {test}")));
    Ok(complaints)
}

/// Returns the texts between single backticks.
fn code_spans(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// Returns whether a span names a source file that does not exist in its crate. Spans with `{`,
/// `*`, `…` or `<` are not checked, nor are those that begin with `/`. Spans that begin with
/// `crates/` are also not checked, because they name files that the reader is going to create, or
/// files of another repository.
fn is_missing(root: &Path, span: &str) -> bool {
    let file = span.split_whitespace().next().unwrap_or_default();
    let is_source = file.contains("/src/") && !file.contains(['{', '*', '…', '<']);
    let is_checked = !["/", "crates/"].iter().any(|start| file.starts_with(start));
    let dir = if file.starts_with("xtask/") { root } else { &root.join("crates") };
    is_source && is_checked && !dir.join(file).exists()
}

/// Returns the names of tests in the last columns of table rows: the code spans that look like
/// functions.
fn promised_tests(text: &str) -> impl Iterator<Item = &str> {
    let rows = text.lines().filter(|line| line.starts_with('|'));
    let cells = rows.filter_map(|row| row.trim_end_matches('|').rsplit('|').next());
    let spans = cells.flat_map(code_spans);
    spans.filter(|span| span.contains('_') && span.chars().all(|c| c.is_alphanumeric() || c == '_'))
}

/// Returns the names of all functions in the crates and in xtask, including tests, but not of
/// methods.
fn tests_of(tree: &Tree) -> Result<BTreeSet<String>, String> {
    let mut functions = Functions(BTreeSet::new());
    for krate in &tree.crates {
        for dir in ["src", "tests"].map(|dir| krate.dir.join(dir)) {
            if dir.is_dir() {
                for source in Source::all_below(&dir)? {
                    functions.visit_file(&source.syntax);
                }
            }
        }
    }
    Ok(functions.0)
}

struct Functions(BTreeSet<String>);

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.0.insert(function.sig.ident.to_string());
        visit::visit_item_fn(self, function);
    }

    // Tests in `proptest!` are only tokens of a macro, so they are found by their tokens.
    fn visit_macro(&mut self, makro: &'ast syn::Macro) {
        let text = makro.tokens.to_string();
        let names = text.split("fn ").skip(1);
        let is_end = |c: char| !(c.is_alphanumeric() || c == '_');
        self.0.extend(names.filter_map(|rest| rest.split(is_end).next()).map(str::to_owned));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_file_that_does_not_exist_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("crates/a/src")).unwrap();
        std::fs::write(dir.path().join("crates/a/src/b.rs"), "").unwrap();
        std::fs::create_dir_all(dir.path().join("xtask/src")).unwrap();
        std::fs::write(dir.path().join("xtask/src/main.rs"), "").unwrap();
        for (span, missing) in [
            ("a/src/b.rs", false),
            ("crates/a/src/new.rs", false),
            ("a/src/b.rs Thing::run", false),
            ("a/src/gone.rs", true),
            ("a/src/{b,c}.rs", false),
            ("a.rs", false),
            ("xtask/src/gone.rs", true),
            ("xtask/src/main.rs", false),
        ] {
            assert_eq!(is_missing(dir.path(), span), missing, "{span}");
        }
    }

    #[test]
    fn tests_are_named_in_the_last_cell() {
        let text = "| `not_here` | `a_test`, `another_test` (`Type`) |\n`not_this`\n";
        assert_eq!(promised_tests(text).collect::<Vec<_>>(), ["a_test", "another_test"]);
    }
}
