//! Determines which modules' items the code of each module names.

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Item, ItemUse, Macro, Path};

use super::Graph;
use super::modules::{Import, Module, Modules, imports, is_only_for_tests};
use crate::source::attributes_of;

/// Maximum number of re-exports through which a name is followed. Without this limit, cyclic
/// imports would be followed without end.
const MAX_HOPS: usize = 16;

/// Returns, for each module, the modules whose items its code names.
pub(super) fn graph(modules: &Modules) -> Graph {
    let uses = modules.0.iter().map(|(path, module)| {
        let mut names = Names { modules, at: path, found: Vec::new() };
        // If code only calls methods of a trait, nothing but the import names the trait. So a
        // private import counts as a use.
        let used = module.imports.iter().filter(|import| !import.is_reexport);
        used.for_each(|import| names.note_import(import));
        module.code.iter().for_each(|item| names.visit_item(item));
        let others = names.found.into_iter().filter(|(to, _)| to != path);
        (path.clone(), others.collect())
    });
    uses.collect()
}

/// The meaning of a name.
#[derive(Debug, PartialEq, Eq)]
enum Target {
    Module(String),
    /// An item. The path is that of the module which defines it.
    Item(String),
}

impl Modules {
    /// Finds what a path in the module `at` means; `None` if it does not lead into this crate.
    fn resolve(&self, at: &str, path: &[String], hops: usize) -> Option<Target> {
        let (first, rest) = path.split_first()?;
        let mut target = match first.as_str() {
            "crate" => Target::Module("crate".to_owned()),
            "self" => Target::Module(at.to_owned()),
            "super" => Target::Module(at.rsplit_once("::")?.0.to_owned()),
            name => self.member(at, name, rest.is_empty(), hops)?,
        };
        for (i, name) in rest.iter().enumerate() {
            let Target::Module(module) = &target else { break };
            target = match name.as_str() {
                "super" => Target::Module(module.rsplit_once("::")?.0.to_owned()),
                name => {
                    let is_last = i + 1 == rest.len();
                    // The items that a macro creates are not known, but the path says in which
                    // module they are.
                    let made = || Target::Item(module.clone());
                    self.member(module, name, is_last, hops).unwrap_or_else(made)
                }
            };
        }
        Some(target)
    }

    /// Finds what `name` means in a module: one of its items, a child module, or an import.
    fn member(&self, at: &str, name: &str, is_last: bool, hops: usize) -> Option<Target> {
        let module = self.0.get(at)?;
        let child = format!("{at}::{name}");
        let child = Some(child).filter(|child| self.0.contains_key(child)).map(Target::Module);
        let own = module.items.iter().any(|item| item == name);
        let own = own.then(|| Target::Item(at.to_owned()));
        let here = if is_last { own.or(child) } else { child.or(own) };
        here.or_else(|| self.imported(at, module, name, hops))
    }

    fn imported(&self, at: &str, module: &Module, name: &str, hops: usize) -> Option<Target> {
        let hops = hops.checked_sub(1)?;
        let mut named = module.imports.iter().filter(|import| import.name == name);
        if let Some(target) = named.find_map(|import| self.resolve(at, &import.path, hops)) {
            return Some(target);
        }
        let mut globs = module.imports.iter().filter(|import| import.name == "*");
        globs.find_map(|import| match self.resolve(at, &import.path, hops)? {
            Target::Module(from) if from != at => self.member(&from, name, true, hops),
            _ => None,
        })
    }
}

/// Collects the items that the code of one module names: for each, the module that defines it, and
/// its name.
struct Names<'m> {
    modules: &'m Modules,
    at: &'m str,
    found: Vec<(String, String)>,
}

impl Names<'_> {
    fn note(&mut self, path: &[String]) {
        if let Some(Target::Item(module)) = self.modules.resolve(self.at, path, MAX_HOPS) {
            self.found.push((module, path.last().cloned().unwrap_or_default()));
        }
    }

    fn note_import(&mut self, import: &Import) {
        let target = self.modules.resolve(self.at, &import.path, MAX_HOPS);
        match target {
            Some(Target::Item(_)) => self.note(&import.path),
            Some(Target::Module(module)) if import.name == "*" => {
                self.found.push((module, "*".to_owned()));
            }
            _ => {}
        }
    }

    /// Collects paths among the tokens of a macro. The arguments of macros are not parsed as
    /// syntax.
    fn search(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        let mut after_dot = false;
        for token in tokens {
            match token {
                TokenTree::Ident(word) => {
                    if colons != 2 {
                        self.note(&std::mem::take(&mut path));
                    }
                    if after_dot {
                        path.clear();
                    } else {
                        path.push(word.to_string());
                    }
                    (colons, after_dot) = (0, false);
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                other => {
                    self.note(&std::mem::take(&mut path));
                    colons = 0;
                    after_dot = matches!(&other, TokenTree::Punct(punct) if punct.as_char() == '.');
                    if let TokenTree::Group(group) = other {
                        self.search(group.stream());
                    }
                }
            }
        }
        self.note(&path);
    }
}

impl<'ast> Visit<'ast> for Names<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_only_for_tests(attributes_of(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_only_for_tests(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        imports(&item.tree, false).iter().for_each(|import| self.note_import(import));
    }

    fn visit_path(&mut self, path: &'ast Path) {
        if path.leading_colon.is_none() {
            let names: Vec<_> = path.segments.iter().map(|one| one.ident.to_string()).collect();
            self.note(&names);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, makro: &'ast Macro) {
        self.visit_path(&makro.path);
        self.search(makro.tokens.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns which modules of a crate with this source text name items of which other modules.
    /// Each pair is written as `from>to`.
    fn uses(text: &str) -> Vec<String> {
        let graph = graph(&Modules::from_text(text));
        let short = |path: &str| path.trim_start_matches("crate::").to_owned();
        let pairs = graph.iter().flat_map(|(from, uses)| uses.keys().map(move |to| (from, to)));
        pairs.map(|(from, to)| format!("{}>{}", short(from), short(to))).collect()
    }

    #[test]
    fn imports_types_expressions_and_macros_are_uses() {
        for code in [
            "use crate::b::X;",
            "struct Y(super::b::X);",
            "fn f() { crate::b::g(); }",
            "fn f() { vec![crate::b::X] }",
            "fn f() { use super::b::X; }",
            "fn f<T: crate::b::X>() {}",
            "use crate::b; fn f() { b::g() }",
            "use crate::{b as c}; fn f() { c::X::Made }",
        ] {
            let text = format!("mod a {{ {code} }} mod b {{ pub struct X; pub fn g() {{}} }}");
            assert_eq!(uses(&text), ["a>b"], "{code}");
        }
    }

    #[test]
    fn re_exports_are_followed_to_the_module_that_defines_the_item() {
        let text = "
            pub use b::X;
            mod a { use crate::X; }
            mod b { pub use self::c::*; mod c { pub struct X; } }";
        assert_eq!(uses(text), ["a>b::c"]);
    }

    #[test]
    fn a_parent_that_re_exports_its_child_does_not_use_it_until_it_names_it() {
        let parent = |code: &str| {
            format!(
                "mod p {{ pub use c::C; mod c {{ pub struct C(super::P); }} pub struct P; {code} }}"
            )
        };
        assert_eq!(uses(&parent("")), ["p::c>p"]);
        assert_eq!(uses(&parent("fn f(_: C) {}")), ["p>p::c", "p::c>p"]);
    }

    #[test]
    fn tests_and_names_of_other_crates_do_not_count() {
        let text = "
            mod a {
                use std::b::X; fn f(b: u8) { b.g(); vec![y.b] }
                #[cfg(test)] mod tests { use crate::b::X; }
                #[cfg(all(test, target_os = \"linux\"))] fn t() { crate::b::g() }
                impl Y { #[cfg(test)] fn t() { crate::b::g() } }
            }
            mod b { pub struct X; }";
        assert!(uses(text).is_empty());
    }

    #[test]
    fn a_glob_is_a_use_of_the_module_it_opens() {
        assert_eq!(uses("mod a { use super::b::*; } mod b { pub trait T {} }"), ["a>b"]);
    }
}
