//! Proves that the crates of L0 and L2 do not need std.
//!
//! The proof has two parts. First, the root files must contain `#![no_std]` and, except in
//! [`UNSAFE_FACTS`], `#![forbid(unsafe_code)]` without conditions. Outside tests, they must not
//! have `extern crate std`. Second, all these crates and their dependencies are linked to one
//! library, which has its own panic handler and allocator. If any of them used std, there would be
//! a second panic handler, and rustc would refuse to link.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use syn::{Attribute, Item, Meta};

use crate::layers::{Layer, layer_of};
use crate::source::{Source, attributes_of, is_test_only};
use crate::tree::{Crate, Tree};

pub(crate) fn check(tree: &Tree) -> Result<Vec<String>, String> {
    let pure: Vec<_> = tree.crates.iter().filter(|krate| is_pure(krate)).collect();
    let mut complaints = Vec::new();
    for krate in &pure {
        complaints.extend(root_faults(krate)?);
    }
    if complaints.is_empty() {
        complaints.extend(link(tree, &pure)?);
    }
    Ok(complaints)
}

fn is_pure(krate: &Crate) -> bool {
    let layer = layer_of(&krate.name);
    matches!(layer, Some(Layer::Facts | Layer::Part | Layer::Engine))
}

fn root_faults(krate: &Crate) -> Result<Vec<String>, String> {
    let root = Source::read(&krate.dir.join("src/lib.rs"))?;
    let faults = text_faults(&root.syntax, UNSAFE_FACTS.contains(&krate.name.as_str()));
    Ok(faults.into_iter().map(|fault| format!("{}: {fault}", krate.name)).collect())
}

/// Crates of L0 and L2 that contain unsafe code, because they offer it to the other crates as safe
/// functions.
const UNSAFE_FACTS: &[&str] = &["slipring-simd"];

fn text_faults(root: &syn::File, may_be_unsafe: bool) -> Vec<&'static str> {
    let mut faults = Vec::new();
    let says = |wanted: fn(&Attribute) -> bool| root.attrs.iter().any(wanted);
    if !says(|attribute| attribute.path().is_ident("no_std")) {
        faults.push("its root lacks an unconditional #![no_std]");
    }
    if !may_be_unsafe && !says(forbids_unsafe) {
        faults.push("its root lacks #![forbid(unsafe_code)]");
    }
    let shipped = root.items.iter().filter(|item| !is_test_only(attributes_of(item)));
    for item in shipped {
        if matches!(item, Item::ExternCrate(item) if item.ident == "std") {
            faults.push("it names std outside tests");
        }
    }
    faults
}

fn forbids_unsafe(attribute: &Attribute) -> bool {
    let Meta::List(list) = &attribute.meta else {
        return false;
    };
    list.path.is_ident("forbid") && list.tokens.to_string().contains("unsafe_code")
}

/// Builds the library, with the versions in the workspace's lock file.
fn link(tree: &Tree, pure: &[&Crate]) -> Result<Vec<String>, String> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(tree.root.join("target"), Into::into);
    let dir = target.join("no-std");
    let needs: Vec<_> =
        pure.iter().map(|krate| (krate.name.as_str(), krate.dir.as_path())).collect();
    write_library(&dir, &needs).map_err(|error| format!("{}: {error}", dir.display()))?;
    let lock = tree.root.join("Cargo.lock");
    let _ = std::fs::copy(lock, dir.join("Cargo.lock"));
    build(&dir)
}

/// Returns the error messages of the compiler; none if it succeeds.
fn build(dir: &Path) -> Result<Vec<String>, String> {
    let output = Command::new(env!("CARGO"))
        .args(["build", "--quiet"])
        .current_dir(dir)
        .env("CARGO_TARGET_DIR", dir.join("target"))
        .env_remove("RUSTFLAGS")
        .output()
        .map_err(|error| format!("cargo build: {error}"))?;
    if output.status.success() {
        return Ok(Vec::new());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let why = "std is needed somewhere below the crates of L0 and L2";
    Ok(vec![format!("{why}:\n{errors}")])
}

/// Writes a library that uses every crate in `needs`. It is in its own workspace.
fn write_library(dir: &Path, needs: &[(&str, &Path)]) -> std::io::Result<()> {
    let mut manifest = "[package]\nname = \"no-std\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
                        [lib]\ncrate-type = [\"staticlib\"]\n\n[workspace]\n\n\
                        [profile.dev]\npanic = \"abort\"\n\n[dependencies]\n"
        .to_owned();
    let mut library = LIBRARY.to_owned();
    for (name, path) in needs {
        let _ = writeln!(manifest, "{name} = {{ path = {:?} }}", path.display().to_string());
        let _ = writeln!(library, "extern crate {} as _;", name.replace('-', "_"));
    }
    std::fs::create_dir_all(dir.join("src"))?;
    std::fs::write(dir.join("Cargo.toml"), manifest)?;
    std::fs::write(dir.join("src/lib.rs"), library)
}

const LIBRARY: &str = "\
#![no_std]
use core::alloc::{GlobalAlloc, Layout};

struct None;

unsafe impl GlobalAlloc for None {
    unsafe fn alloc(&self, _: Layout) -> *mut u8 {
        core::ptr::null_mut()
    }
    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static ALLOCATOR: None = None;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

";

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str) -> Vec<&'static str> {
        text_faults(&syn::parse_file(text).unwrap(), false)
    }

    #[test]
    fn a_root_must_say_both_unconditionally() {
        let good = "#![no_std]\n#![forbid(unsafe_code)]\nextern crate alloc;\n\
                    #[cfg(test)]\nextern crate std;\n";
        assert!(faults(good).is_empty());
        assert_eq!(faults("#![cfg_attr(not(test), no_std)]\n#![forbid(unsafe_code)]").len(), 1);
        assert_eq!(faults("#![no_std]\n#![deny(unsafe_code)]").len(), 1);
        let names_std = "#![no_std]\n#![forbid(unsafe_code)]\nextern crate std;";
        assert_eq!(faults(names_std), ["it names std outside tests"]);
    }

    /// Links a crate with this source text without std. Returns the error messages.
    fn linked(text: &str) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        let krate = dir.path().join("victim");
        std::fs::create_dir_all(krate.join("src")).unwrap();
        std::fs::write(krate.join("src/lib.rs"), text).unwrap();
        let manifest = "[package]\nname = \"victim\"\nversion = \"0.0.0\"\nedition = \"2024\"\n";
        std::fs::write(krate.join("Cargo.toml"), manifest).unwrap();
        let library = dir.path().join("library");
        write_library(&library, &[("victim", &krate)]).unwrap();
        build(&library).unwrap()
    }

    #[test]
    fn a_crate_that_needs_std_does_not_link() {
        let complaints = linked("pub fn now() -> std::time::Instant { std::time::Instant::now() }");
        assert!(complaints[0].contains("panic_impl"), "{complaints:?}");
    }

    #[test]
    fn a_crate_without_std_links() {
        let text =
            "#![no_std]\nextern crate alloc;\npub fn v() -> alloc::vec::Vec<u8> { alloc::vec![1] }";
        assert_eq!(linked(text), Vec::<String>::new());
    }
}
