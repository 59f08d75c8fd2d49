//! Rust source files, parsed.

use std::path::{Path, PathBuf};

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, File, ImplItem, Item};

/// A parsed source file.
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
    pub(crate) syntax: File,
}

impl Source {
    /// Reads and parses one file.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| named(&error))?;
        Ok(Self {
            path: path.to_owned(),
            syntax: syn::parse_file(&text).map_err(|error| named(&error))?,
            text,
        })
    }

    /// Returns every source file below `dir`.
    pub(crate) fn all_below(dir: &Path) -> Result<Vec<Self>, String> {
        let files = rust_files(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        files.iter().map(|path| Self::read(path)).collect()
    }

    /// Returns every source file below `dir` that is part of the product. Files and directories
    /// that are named as tests are left out. So are modules that their parent declares only for
    /// tests.
    pub(crate) fn shipped_below(dir: &Path) -> Result<Vec<Self>, String> {
        let files = rust_files(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        let shipped = files.iter().filter(|path| !is_test_path(path));
        let mut sources = shipped.map(|path| Self::read(path)).collect::<Result<Vec<_>, _>>()?;
        let tests: Vec<_> = sources.iter().flat_map(Self::test_modules).collect();
        sources.retain(|source| !tests.iter().any(|module| is_of_module(&source.path, module)));
        Ok(sources)
    }

    /// Returns the modules that this file declares only for tests and that are in separate files.
    /// They are given as paths without `.rs`.
    fn test_modules(&self) -> Vec<PathBuf> {
        let is_root = ["mod.rs", "lib.rs", "main.rs"].iter().any(|name| self.path.ends_with(name));
        let dir = if is_root { self.path.with_file_name("") } else { self.path.with_extension("") };
        let declared = self.syntax.items.iter().filter_map(|item| match item {
            Item::Mod(module) if module.content.is_none() && is_test_only(&module.attrs) => {
                Some(dir.join(module.ident.to_string()))
            }
            _ => None,
        });
        declared.collect()
    }

    /// Returns the number of lines. Items that exist only in tests are not counted.
    pub(crate) fn shipped_lines(&self) -> usize {
        let all = self.text.lines().count();
        let mut tests = TestLineCounter(0);
        tests.visit_file(&self.syntax);
        all - tests.0
    }
}

/// Returns whether an item has the attribute `test` or `cfg(test)`.
pub(crate) fn is_test_only(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let path = attribute.path();
        path.is_ident("test")
            || (path.is_ident("cfg")
                && attribute
                    .parse_args::<syn::Path>()
                    .is_ok_and(|condition| condition.is_ident("test")))
    })
}

/// Returns the attributes of an item; none for kinds of items that are not listed here.
pub(crate) fn attributes_of(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Returns the attributes of an item in an `impl` block; none for kinds that are not listed here.
pub(crate) fn attributes_of_impl_item(item: &ImplItem) -> &[Attribute] {
    match item {
        ImplItem::Const(item) => &item.attrs,
        ImplItem::Fn(item) => &item.attrs,
        ImplItem::Type(item) => &item.attrs,
        ImplItem::Macro(item) => &item.attrs,
        _ => &[],
    }
}

fn rust_files(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|end| end == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn is_test_path(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "tests") || path.ends_with("tests.rs")
}

/// Returns whether a file contains the module `module` (a path without `.rs`) or one of its child
/// modules.
fn is_of_module(path: &Path, module: &Path) -> bool {
    path.with_extension("") == module || path.starts_with(module)
}

/// Counts the lines of items that exist only in tests.
struct TestLineCounter(usize);

impl TestLineCounter {
    fn count(&mut self, span: Span) {
        self.0 += span.end().line - span.start().line + 1;
    }
}

impl<'ast> Visit<'ast> for TestLineCounter {
    fn visit_item(&mut self, item: &'ast Item) {
        if is_test_only(attributes_of(item)) {
            self.count(item.span());
        } else {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        if is_test_only(attributes_of_impl_item(item)) {
            self.count(item.span());
        } else {
            visit::visit_impl_item(self, item);
        }
    }
}

#[cfg(test)]
pub(crate) fn from_text(text: &str) -> Source {
    Source { path: "x.rs".into(), text: text.to_owned(), syntax: syn::parse_file(text).unwrap() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_tests_do_not_count() {
        let source = from_text("fn a() {}\n\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n");
        assert_eq!(source.shipped_lines(), 2);
        let source = from_text("impl A {\n    #[cfg(test)]\n    fn a() {}\n    fn b() {}\n}\n");
        assert_eq!(source.shipped_lines(), 3);
    }

    #[test]
    fn only_the_plain_condition_makes_an_item_test_only() {
        for (text, test_only) in [
            ("#[cfg(test)] fn a() {}", true),
            ("#[test] fn a() {}", true),
            ("#[cfg(test)] union A { a: u8 }", true),
            ("#[cfg(test)] extern \"C\" { fn a(); }", true),
            ("#[cfg(test)] trait A = Copy;", true),
            ("#[cfg(not(test))] fn a() {}", false),
            ("#[cfg(any(test, loom))] fn a() {}", false),
            ("fn a() {}", false),
        ] {
            let source = from_text(text);
            assert_eq!(is_test_only(attributes_of(&source.syntax.items[0])), test_only, "{text}");
        }
    }

    #[test]
    fn modules_declared_for_tests_only_do_not_ship() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("lib.rs", "mod a;\n#[cfg(test)]\nmod models;\n");
        write("models.rs", "mod deep;\n");
        write("models/deep.rs", "");
        write("a.rs", "#[cfg(test)]\nmod models;\n");
        write("a/models.rs", "");
        write("a/modelsque.rs", "");
        let shipped = Source::shipped_below(dir.path()).unwrap();
        let names = shipped.iter().map(|source| source.path.strip_prefix(dir.path()).unwrap());
        let names: Vec<_> = names.map(|name| name.to_str().unwrap()).collect();
        assert_eq!(names, ["a/modelsque.rs", "a.rs", "lib.rs"]);
    }

    #[test]
    fn files_and_directories_named_tests_do_not_ship() {
        assert!(is_test_path(Path::new("src/units/tests.rs")));
        assert!(is_test_path(Path::new("src/tests/model.rs")));
        assert!(!is_test_path(Path::new("src/attests.rs")));
    }
}
