//! Compares the number of unsafe blocks and impls of each crate with `.ci/unsafe-budget.toml`.
//!
//! When a number in that file is raised, a reviewer sees it. Each block and impl must have a SAFETY
//! comment immediately above it or above its statement. clippy checks the same, but not inside
//! macros.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{ExprUnsafe, ImplItem, Item, ItemImpl, Macro, Stmt};

use crate::source::{Source, attributes_of, attributes_of_impl_item, is_test_only};
use crate::tree::{Crate, Tree};

pub(crate) fn check(tree: &Tree) -> Result<Vec<String>, String> {
    let budget = tree.ci_table("unsafe-budget.toml")?;
    let mut complaints = Vec::new();
    for krate in &tree.crates {
        let granted = budget.get(&krate.name).and_then(toml::Value::as_integer);
        let granted = usize::try_from(granted.unwrap_or(0)).unwrap_or(0);
        complaints.extend(check_crate(tree, krate, granted)?);
    }
    Ok(complaints)
}

fn check_crate(tree: &Tree, krate: &Crate, granted: usize) -> Result<Vec<String>, String> {
    let mut complaints = Vec::new();
    let mut count = 0;
    for source in Source::shipped_below(&krate.dir.join("src"))? {
        let places = unsafe_places(&source);
        count += places.len();
        let bare = places.iter().filter(|place| !is_argued(&source.text, place));
        let name = tree.relative(&source.path).display();
        complaints.extend(bare.map(|place| format!("{name}:{}: no SAFETY comment", place.line)));
    }
    let name = &krate.name;
    match count.cmp(&granted) {
        std::cmp::Ordering::Greater => complaints.push(format!(
            "{name} has {count} unsafe blocks, .ci/unsafe-budget.toml grants {granted}"
        )),
        std::cmp::Ordering::Less => {
            println!("unsafe-budget: {name} needs {count} of {granted}: lower it")
        }
        std::cmp::Ordering::Equal => {}
    }
    Ok(complaints)
}

/// The first lines of an unsafe block and of the statement that contains it, counted from 1.
struct UnsafeBlock {
    line: usize,
    statement: usize,
}

fn unsafe_places(source: &Source) -> Vec<UnsafeBlock> {
    let mut finder = Finder::default();
    finder.visit_file(&source.syntax);
    finder.found
}

/// Returns whether the lines above the block, or above its statement, are a comment that contains
/// SAFETY.
fn is_argued(text: &str, place: &UnsafeBlock) -> bool {
    let lines: Vec<_> = text.lines().map(str::trim_start).collect();
    [place.line, place.statement].into_iter().any(|line| {
        let above = lines[..line - 1].iter().rev();
        let mut comment = above.take_while(|line| line.starts_with("//") || line.starts_with("#["));
        comment.any(|line| line.contains("SAFETY"))
    })
}

#[derive(Default)]
struct Finder {
    found: Vec<UnsafeBlock>,
    statement: usize,
}

impl Finder {
    fn note(&mut self, line: usize) {
        let statement = if self.statement == 0 { line } else { self.statement };
        self.found.push(UnsafeBlock { line, statement });
    }

    /// Searches the tokens of a macro for `unsafe { .. }`. The arguments of macros are not parsed
    /// as syntax.
    fn search(&mut self, tokens: TokenStream) {
        let mut after_unsafe = None;
        for token in tokens {
            match token {
                TokenTree::Ident(word) if word == "unsafe" => {
                    after_unsafe = Some(word.span().start().line);
                    continue;
                }
                TokenTree::Group(group) => {
                    if let Some(line) =
                        after_unsafe.filter(|_| group.delimiter() == Delimiter::Brace)
                    {
                        self.found.push(UnsafeBlock { line, statement: line });
                    }
                    self.search(group.stream());
                }
                _ => {}
            }
            after_unsafe = None;
        }
    }
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item(&mut self, item: &'ast Item) {
        if is_test_only(attributes_of(item)) {
            return;
        }
        let outer = std::mem::replace(&mut self.statement, 0);
        visit::visit_item(self, item);
        self.statement = outer;
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        if !is_test_only(attributes_of_impl_item(item)) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        let outer = std::mem::replace(&mut self.statement, statement.span().start().line);
        visit::visit_stmt(self, statement);
        self.statement = outer;
    }

    fn visit_expr_unsafe(&mut self, block: &'ast ExprUnsafe) {
        self.note(block.unsafe_token.span.start().line);
        visit::visit_expr_unsafe(self, block);
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        if let Some(token) = &item.unsafety {
            self.note(token.span.start().line);
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_macro(&mut self, makro: &'ast Macro) {
        self.search(makro.tokens.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::from_text;

    /// Returns the number of unsafe blocks and impls, and how many of them have a SAFETY comment.
    fn counts(text: &str) -> (usize, usize) {
        let source = from_text(text);
        let places = unsafe_places(&source);
        let argued = places.iter().filter(|place| is_argued(text, place)).count();
        (places.len(), argued)
    }

    #[test]
    fn blocks_and_impls_count_and_words_in_text_do_not() {
        let text = "// unsafe { }\nunsafe impl Send for X {}\nfn a() { let s = \"unsafe {}\"; unsafe { b() } }\n";
        assert_eq!(counts(text), (2, 0));
    }

    #[test]
    fn a_comment_above_the_block_or_its_statement_argues_it() {
        let above = "fn a() {\n    // SAFETY: b.\n    unsafe { b() }\n}\n";
        assert_eq!(counts(above), (1, 1));
        let statement =
            "fn a() {\n    // SAFETY:\n    // - long.\n    let x =\n        unsafe { b() };\n}\n";
        assert_eq!(counts(statement), (1, 1));
        let elsewhere = "fn a() {\n    // SAFETY: c.\n    c();\n    unsafe { b() }\n}\n";
        assert_eq!(counts(elsewhere), (1, 0));
    }

    #[test]
    fn blocks_inside_macros_count() {
        let rules = "macro_rules! m {\n    () => {{\n        // SAFETY: b.\n        unsafe { b() }\n    }};\n}\n";
        assert_eq!(counts(rules), (1, 1));
        assert_eq!(counts("fn a() { println!(\"{}\", unsafe { b() }); }\n"), (1, 0));
    }

    #[test]
    fn tests_are_not_in_the_budget() {
        assert_eq!(counts("#[cfg(test)]\nmod tests {\n    fn a() { unsafe { b() } }\n}\n"), (0, 0));
        assert_eq!(
            counts("impl A {\n    #[cfg(test)]\n    fn a() { unsafe { b() } }\n}\n"),
            (0, 0)
        );
    }
}
