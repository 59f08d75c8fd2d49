//! The modules of a crate, as its files declare them, with the items and imports of each module.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use syn::{Attribute, Item, ItemMod, UseTree, Visibility};

use crate::source::{Source, attributes_of, is_test_only};

/// All modules of one target, except those only for tests. The key is the path from the root
/// module, which is called `crate`.
#[derive(Default)]
pub(super) struct Modules(pub(super) BTreeMap<String, Module>);

/// What a module defines and imports.
#[derive(Default)]
pub(super) struct Module {
    /// Names that the module's items define: types, traits, functions, constants, statics, macros.
    pub(super) items: Vec<String>,
    pub(super) imports: Vec<Import>,
    /// The items themselves, without child modules and imports.
    pub(super) code: Vec<Item>,
}

/// One name that a `use` imports; `*` means all names.
#[derive(Debug, Clone)]
pub(super) struct Import {
    pub(super) name: String,
    pub(super) path: Vec<String>,
    /// Whether the import is a re-export, which does not count as a use of the item.
    pub(super) is_reexport: bool,
}

impl Modules {
    /// Reads a target, starting from its root file.
    pub(super) fn read(root: &Path) -> Result<Self, String> {
        let mut modules = Self::default();
        let dir = root.parent().unwrap_or(root).to_owned();
        modules.add_file(root, &dir, "crate")?;
        Ok(modules)
    }

    fn add_file(&mut self, file: &Path, dir: &Path, path: &str) -> Result<(), String> {
        let source = Source::read(file)?;
        self.add(source.syntax.items, file, dir, path)
    }

    /// Adds a module whose child modules are in `dir`.
    fn add(&mut self, items: Vec<Item>, file: &Path, dir: &Path, path: &str) -> Result<(), String> {
        let mut module = Module::default();
        for item in items {
            if is_only_for_tests(attributes_of(&item)) {
                continue;
            }
            match item {
                Item::Mod(child) => self.add_child(child, file, dir, path)?,
                Item::Use(item) => {
                    let is_reexport = !matches!(item.vis, Visibility::Inherited);
                    module.imports.extend(imports(&item.tree, is_reexport));
                }
                other => {
                    module.items.extend(name_of(&other));
                    module.code.push(other);
                }
            }
        }
        self.0.insert(path.to_owned(), module);
        Ok(())
    }

    fn add_child(
        &mut self,
        child: ItemMod,
        file: &Path,
        dir: &Path,
        path: &str,
    ) -> Result<(), String> {
        let (name, path) = (child.ident.to_string(), format!("{path}::{}", child.ident));
        let below = dir.join(&name);
        if let Some((_, items)) = child.content {
            return self.add(items, file, &below, &path);
        }
        let beside = file.parent().unwrap_or(dir);
        let places = match path_attribute(&child.attrs) {
            Some(named) => [beside.join(&named), dir.join(&named)],
            None => [dir.join(format!("{name}.rs")), below.join("mod.rs")],
        };
        match places.iter().find(|place| place.is_file()) {
            Some(found) => self.add_file(found, &below, &path),
            None => Err(format!("{}: no file for module {name}", file.display())),
        }
    }

    /// Creates the modules of a crate that consists of one source text.
    #[cfg(test)]
    pub(super) fn from_text(text: &str) -> Self {
        let mut modules = Self::default();
        let items = syn::parse_file(text).unwrap().items;
        modules.add(items, Path::new("x.rs"), Path::new("x"), "crate").unwrap();
        modules
    }
}

/// Returns the names that a `use` tree imports.
pub(super) fn imports(tree: &UseTree, is_reexport: bool) -> Vec<Import> {
    let mut found = Vec::new();
    collect(tree, &mut Vec::new(), is_reexport, &mut found);
    found
}

fn collect(tree: &UseTree, path: &mut Vec<String>, is_reexport: bool, found: &mut Vec<Import>) {
    let mut add = |name: String, mut path: Vec<String>, last: Option<String>| {
        path.extend(last);
        found.push(Import { name, path, is_reexport });
    };
    match tree {
        UseTree::Path(tree) => {
            path.push(tree.ident.to_string());
            collect(&tree.tree, path, is_reexport, found);
            path.pop();
        }
        UseTree::Name(tree) if tree.ident == "self" => {
            add(path.last().cloned().unwrap_or_default(), path.clone(), None);
        }
        UseTree::Name(tree) => {
            let name = tree.ident.to_string();
            add(name.clone(), path.clone(), Some(name));
        }
        UseTree::Rename(tree) => {
            let last = Some(tree.ident.to_string()).filter(|name| name != "self");
            add(tree.rename.to_string(), path.clone(), last);
        }
        UseTree::Glob(_) => add("*".to_owned(), path.clone(), None),
        UseTree::Group(tree) => {
            for one in &tree.items {
                collect(one, path, is_reexport, found);
            }
        }
    }
}

fn name_of(item: &Item) -> Option<String> {
    Some(match item {
        Item::Const(item) => item.ident.to_string(),
        Item::Enum(item) => item.ident.to_string(),
        Item::Fn(item) => item.sig.ident.to_string(),
        Item::Macro(item) => item.ident.as_ref()?.to_string(),
        Item::Static(item) => item.ident.to_string(),
        Item::Struct(item) => item.ident.to_string(),
        Item::Trait(item) => item.ident.to_string(),
        Item::TraitAlias(item) => item.ident.to_string(),
        Item::Type(item) => item.ident.to_string(),
        Item::Union(item) => item.ident.to_string(),
        _ => return None,
    })
}

/// Returns whether attributes restrict an item to tests, such as `test`, `cfg(test)` and
/// `cfg(all(test, ..))`.
pub(super) fn is_only_for_tests(attributes: &[Attribute]) -> bool {
    let conditional = attributes.iter().filter(|attribute| attribute.path().is_ident("cfg"));
    is_test_only(attributes)
        || conditional.filter_map(|attribute| attribute.parse_args().ok()).any(|it| needs_test(&it))
}

fn needs_test(condition: &syn::Meta) -> bool {
    match condition {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) if list.path.is_ident("all") => {
            type Conditions = syn::punctuated::Punctuated<syn::Meta, syn::Token![,]>;
            let parts = list.parse_args_with(Conditions::parse_terminated);
            parts.is_ok_and(|parts| parts.iter().any(needs_test))
        }
        _ => false,
    }
}

/// Returns the file that an attribute `#[path = ".."]` names.
fn path_attribute(attributes: &[Attribute]) -> Option<PathBuf> {
    let named = attributes.iter().find(|attribute| attribute.path().is_ident("path"))?;
    let syn::Meta::NameValue(pair) = &named.meta else { return None };
    let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &pair.value else {
        return None;
    };
    Some(text.value().into())
}
