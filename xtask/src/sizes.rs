//! Files in `src` of more than 500 lines and functions of more than 80 lines need a reason in
//! `.ci/size-exceptions.toml`: `"path" = "reason"` for a file, `"path::function" = "reason"` for a
//! function. Tests do not count.

use std::collections::BTreeSet;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Block, ImplItem, ImplItemFn, Item, ItemFn, Signature, TraitItemFn};

use crate::source::{Source, attributes_of, attributes_of_impl_item, is_test_only};
use crate::tree::Tree;

const MAX_FILE_LINES: usize = 500;
const MAX_FN_LINES: usize = 80;

pub(crate) fn check(tree: &Tree) -> Result<Vec<String>, String> {
    let mut excused: BTreeSet<_> =
        tree.ci_table("size-exceptions.toml")?.into_iter().map(|(name, _)| name).collect();
    let mut complaints = Vec::new();
    for krate in &tree.crates {
        for source in Source::shipped_below(&krate.dir.join("src"))? {
            let name = tree.relative(&source.path).display().to_string();
            for excess in excesses(&source, &name) {
                if !excused.remove(&excess.name) {
                    complaints.push(excess.to_string());
                }
            }
        }
    }
    let idle = excused.iter();
    complaints.extend(idle.map(|name| format!("{name} needs no exception any more")));
    Ok(complaints)
}

struct OversizedItem {
    name: String,
    lines: usize,
    limit: usize,
}

impl std::fmt::Display for OversizedItem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} has {} lines, more than {}", self.name, self.lines, self.limit)
    }
}

fn excesses(source: &Source, name: &str) -> Vec<OversizedItem> {
    let mut functions = Functions::default();
    functions.visit_file(&source.syntax);
    let file = OversizedItem {
        name: name.to_owned(),
        lines: source.shipped_lines(),
        limit: MAX_FILE_LINES,
    };
    let long = functions.found.into_iter().map(|(function, lines)| OversizedItem {
        name: format!("{name}::{function}"),
        lines,
        limit: MAX_FN_LINES,
    });
    let all = [file].into_iter().chain(long);
    all.filter(|excess| excess.lines > excess.limit).collect()
}

/// Finds every function of the product, and counts its lines from `fn` to the closing brace.
#[derive(Default)]
struct Functions {
    found: Vec<(String, usize)>,
}

impl Functions {
    fn note(&mut self, signature: &Signature, block: &Block) {
        let lines = block.span().end().line - signature.span().start().line + 1;
        self.found.push((signature.ident.to_string(), lines));
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test_only(attributes_of(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        if !is_test_only(attributes_of_impl_item(item)) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        self.note(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        self.note(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        if let Some(block) = &function.default {
            self.note(&function.sig, block);
        }
        visit::visit_trait_item_fn(self, function);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::from_text;

    fn names(text: &str) -> Vec<String> {
        let found = excesses(&from_text(text), "x.rs");
        found.into_iter().map(|excess| excess.name).collect()
    }

    fn function(name: &str, lines: usize) -> String {
        format!("/// Doc.\nfn {name}() {{\n{}}}\n", "a();\n".repeat(lines - 2))
    }

    #[test]
    fn a_function_of_80_lines_passes_and_of_81_does_not() {
        assert!(names(&function("good", 80)).is_empty());
        assert_eq!(names(&function("long", 81)), ["x.rs::long"]);
        let method = format!("impl X {{\n{}}}", function("method", 81));
        assert_eq!(names(&method), ["x.rs::method"]);
    }

    #[test]
    fn a_long_file_is_named_but_its_tests_do_not_count() {
        assert_eq!(names(&"const A: u8 = 0;\n".repeat(501)), ["x.rs"]);
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", function("t", 700));
        assert!(names(&tests).is_empty());
        let method = format!("impl A {{\n#[cfg(test)]\n{}}}\n", function("t", 700));
        assert!(names(&method).is_empty());
    }
}
