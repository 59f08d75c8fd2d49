//! The workspace, as described by `cargo metadata`.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// A crate of the workspace, as `cargo metadata` describes it.
#[derive(Debug)]
pub(crate) struct Crate {
    pub(crate) name: String,
    pub(crate) dir: PathBuf,
    /// Names of all dependencies, except dev-dependencies.
    pub(crate) needs: Vec<String>,
}

/// The root directory and the crates of the workspace.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) root: PathBuf,
    pub(crate) crates: Vec<Crate>,
}

impl Tree {
    /// Runs `cargo metadata`, and parses its output.
    pub(crate) fn load() -> Result<Self, String> {
        let output = Command::new(env!("CARGO"))
            .args(["metadata", "--format-version", "1", "--no-deps"])
            .output()
            .map_err(|error| format!("cargo metadata: {error}"))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        let json = serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("cargo metadata: {error}"))?;
        Self::from_metadata(&json).ok_or_else(|| "cargo metadata lacks a field".to_owned())
    }

    fn from_metadata(json: &Value) -> Option<Self> {
        let packages = json["packages"].as_array()?;
        Some(Self {
            root: json["workspace_root"].as_str()?.into(),
            crates: packages.iter().map(Crate::from_metadata).collect::<Option<_>>()?,
        })
    }

    /// Returns a path relative to the root directory, as in messages and in lists of exceptions.
    pub(crate) fn relative<'p>(&self, path: &'p Path) -> &'p Path {
        path.strip_prefix(&self.root).unwrap_or(path)
    }

    /// Returns the Markdown files in the root directory, in `docs`, in `docs/design`, in `xtask`
    /// and in each directory in `crates`. The changelog is omitted, because it describes the past.
    pub(crate) fn documents(&self) -> Result<Vec<PathBuf>, String> {
        let mut found = Vec::new();
        let crates = list(&self.root.join("crates"))?;
        let own = ["", "docs", "docs/design", "xtask"].map(|dir| self.root.join(dir));
        for dir in own.iter().chain(&crates).filter(|dir| dir.is_dir()) {
            let is_document = |path: &PathBuf| {
                path.extension().is_some_and(|end| end == "md") && !path.ends_with("CHANGELOG.md")
            };
            found.extend(list(dir)?.into_iter().filter(is_document));
        }
        Ok(found)
    }

    /// Reads the TOML table in the file `.ci/NAME`.
    pub(crate) fn ci_table(&self, name: &str) -> Result<toml::Table, String> {
        let path = self.root.join(".ci").join(name);
        read_text(&path)?.parse().map_err(|error| format!("{}: {error}", path.display()))
    }
}

/// Reads a file. If that fails, the error names the file.
pub(crate) fn read_text(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn list(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let named = |error: std::io::Error| format!("{}: {error}", dir.display());
    let entries = std::fs::read_dir(dir).map_err(named)?;
    let mut paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(named)?;
    paths.sort();
    Ok(paths)
}

impl Crate {
    /// Returns the root file of each target of the product.
    pub(crate) fn roots(&self) -> Vec<PathBuf> {
        let src = self.dir.join("src");
        let known = ["lib.rs", "main.rs"].map(|name| src.join(name));
        let mut roots: Vec<_> = known.into_iter().filter(|root| root.is_file()).collect();
        // In most crates, this directory does not exist.
        let programs = std::fs::read_dir(src.join("bin")).into_iter().flatten().flatten();
        let programs = programs.map(|entry| entry.path());
        roots.extend(programs.filter(|path| path.extension().is_some_and(|end| end == "rs")));
        roots.sort();
        roots
    }

    fn from_metadata(package: &Value) -> Option<Self> {
        let needs = package["dependencies"].as_array()?.iter();
        let shipped = needs.filter(|dependency| dependency["kind"] != "dev");
        let names = shipped.map(|dependency| dependency["name"].as_str().map(str::to_owned));
        let manifest = Path::new(package["manifest_path"].as_str()?);
        Some(Self {
            name: package["name"].as_str()?.to_owned(),
            dir: manifest.parent()?.to_owned(),
            needs: names.collect::<Option<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn dev_dependencies_are_left_out() {
        let tree = Tree::from_metadata(&json!({
            "workspace_root": "/w",
            "packages": [{
                "name": "slipring-abi",
                "manifest_path": "/w/crates/abi/Cargo.toml",
                "dependencies": [
                    { "name": "thiserror", "kind": null },
                    { "name": "cc", "kind": "build" },
                    { "name": "proptest", "kind": "dev" },
                ],
            }],
        }))
        .unwrap();
        assert_eq!(tree.crates[0].needs, ["thiserror", "cc"]);
        assert_eq!(tree.crates[0].dir, Path::new("/w/crates/abi"));
        assert_eq!(tree.relative(Path::new("/w/crates/abi/x.rs")), Path::new("crates/abi/x.rs"));
    }
}
