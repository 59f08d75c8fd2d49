//! Finds functions that make slices of raw memory. No safe function may return a slice of memory to
//! which another process writes.
//!
//! A function that makes a slice of raw memory must be `unsafe`, take a `PrivateMem` (which proves
//! that no other process maps the memory), or be listed in `.ci/lent-memory.toml` with a reason.

use syn::visit::{self, Visit};
use syn::{ExprPath, ImplItemFn, Item, ItemFn, PathSegment, Safety, Signature, TraitItemFn};

use crate::source::{Source, attributes_of, is_test_only};
use crate::tree::Tree;

/// Functions that make a slice from a pointer and a length.
const MAKERS: [&str; 4] =
    ["from_raw_parts", "from_raw_parts_mut", "slice_from_raw_parts", "slice_from_raw_parts_mut"];
/// The type whose values prove that memory is private.
const PROOF: &str = "PrivateMem";

pub(crate) fn check(tree: &Tree) -> Result<Vec<String>, String> {
    let mut excused = tree.ci_table("lent-memory.toml")?;
    let mut complaints = Vec::new();
    for krate in &tree.crates {
        for source in Source::shipped_below(&krate.dir.join("src"))? {
            let file = tree.relative(&source.path).display().to_string();
            for name in unproven(&source) {
                let key = format!("{file} {name}");
                if excused.remove(&key).is_none() {
                    complaints.push(format!(
                        "{key}: makes a slice of raw memory: be unsafe, take a {PROOF}, \
                         or give a reason in .ci/lent-memory.toml"
                    ));
                }
            }
        }
    }
    let stale = excused.keys().map(|key| format!("{key}: excused, but makes no slice any more"));
    complaints.extend(stale);
    Ok(complaints)
}

/// Returns the functions that make slices although they are not `unsafe` and do not take the proof.
fn unproven(source: &Source) -> Vec<String> {
    let mut finder = SliceFinder::default();
    finder.visit_file(&source.syntax);
    finder.found
}

#[derive(Default)]
struct SliceFinder {
    /// The name of the innermost function, and whether it may make slices; `None` outside
    /// functions.
    within: Option<(String, bool)>,
    found: Vec<String>,
}

impl SliceFinder {
    fn within(&mut self, signature: &Signature, visit: impl FnOnce(&mut Self)) {
        let mut proof = ProofFinder::default();
        signature.inputs.iter().for_each(|input| proof.visit_fn_arg(input));
        let is_unsafe = matches!(signature.safety, Safety::Unsafe(_));
        let may = is_unsafe || proof.found;
        let outer = self.within.replace((signature.ident.to_string(), may));
        visit(self);
        self.within = outer;
    }
}

/// Searches the types of parameters for the proof.
#[derive(Default)]
struct ProofFinder {
    found: bool,
}

impl<'ast> Visit<'ast> for ProofFinder {
    fn visit_path_segment(&mut self, segment: &'ast PathSegment) {
        self.found |= segment.ident == PROOF;
        visit::visit_path_segment(self, segment);
    }
}

impl<'ast> Visit<'ast> for SliceFinder {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test_only(attributes_of(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.within(&item.sig, |finder| visit::visit_item_fn(finder, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        if !is_test_only(&item.attrs) {
            self.within(&item.sig, |finder| visit::visit_impl_item_fn(finder, item));
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        self.within(&item.sig, |finder| visit::visit_trait_item_fn(finder, item));
    }

    fn visit_expr_path(&mut self, path: &'ast ExprPath) {
        let last = path.path.segments.last().map(|segment| segment.ident.to_string());
        if last.is_some_and(|name| MAKERS.contains(&name.as_str())) {
            match &self.within {
                Some((_, true)) => {}
                Some((name, false)) => self.found.push(name.clone()),
                None => self.found.push("a constant".to_owned()),
            }
        }
        visit::visit_expr_path(self, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::from_text;

    #[test]
    fn a_safe_function_that_makes_a_slice_needs_the_proof() {
        for (text, complains) in [
            (
                "fn a(p: *const u8) -> &'static [u8] { unsafe { std::slice::from_raw_parts(p, 1) } }",
                true,
            ),
            ("unsafe fn a(p: *const u8) { unsafe { from_raw_parts(p, 1) }; }", false),
            ("fn a(m: PrivateMem<'_>) { unsafe { slice::from_raw_parts_mut(m.p, 1) }; }", false),
            ("impl A { fn a(&self) { let make = slice_from_raw_parts; } }", true),
            ("impl A { fn a(&self, m: &mut Option<PrivateMem>) { from_raw_parts(m, 1); } }", false),
            ("#[cfg(test)] fn a(p: *const u8) { from_raw_parts(p, 1); }", false),
            ("fn a() { fn b(p: *const u8) { from_raw_parts(p, 1); } }", true),
            ("fn a() { from_parts(); }", false),
            ("trait A { fn a(&self) { from_raw_parts(p, 1); } }", true),
            ("trait A { unsafe fn a(&self) { from_raw_parts(p, 1); } }", false),
        ] {
            assert_eq!(!unproven(&from_text(text)).is_empty(), complains, "{text}");
        }
    }
}
