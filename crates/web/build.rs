//! Bundles the page in `web/` if npm is installed. If it is not, reports what is missing.
//!
//! This never makes the build fail: a gateway without a page still has its API. Packages are
//! installed in the directory of this build and stay there. So the registry is contacted again only
//! if the lock file changes.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

/// The files of `web/` from which the bundle is made.
const SOURCES: [&str; 4] = ["package.json", "package-lock.json", "src", "index.html"];
/// The files of the page except `index.html`, with their content types.
const MADE: [(&str, &str); 2] =
    [("main.js", "text/javascript; charset=utf-8"), ("main.css", "text/css; charset=utf-8")];

fn main() {
    let from = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let from = from.join("../../web");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    println!("cargo:rerun-if-changed=build.rs");
    for source in SOURCES {
        println!("cargo:rerun-if-changed={}", from.join(source).display());
    }
    let page = match bundle(&from, &out.join("web")) {
        Ok(()) => files(&out.join("web")),
        Err(why) => {
            println!("cargo:warning=slipring serve has no page: {why}");
            println!("cargo:warning=see to that, then: touch web/package.json, and build again");
            format!("Err({why:?})")
        }
    };
    let text = format!("static PAGE: Result<&[File], &str> = {page};\n");
    fs::write(out.join("page.rs"), text).expect("cargo's directory can be written");
}

fn bundle(from: &Path, work: &Path) -> Result<(), String> {
    let failed = |error: io::Error| format!("the sources of the page cannot be copied: {error}");
    let lock = fs::read(from.join("package-lock.json")).map_err(failed)?;
    fs::create_dir_all(work).map_err(failed)?;
    // A file that an earlier version of the sources has left would be bundled again.
    let _ = fs::remove_dir_all(work.join("src"));
    for source in SOURCES {
        copy(&from.join(source), &work.join(source)).map_err(failed)?;
    }
    let stamp = work.join("installed-lock");
    if fs::read(&stamp).ok().as_ref() != Some(&lock) {
        let words = ["ci", "--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund"];
        // If the registry fails for a moment, npm tries again. If it cannot be reached, npm soon
        // gives up.
        let patience = ["--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000"];
        let words = words.into_iter().chain(patience).chain(["--fetch-timeout=30000"]);
        npm(work, words.chain(["--prefer-offline"]))?;
        fs::write(&stamp, lock).map_err(failed)?;
    }
    npm(work, ["run", "--silent", "build", "--", "--outdir=.", "--log-level=warning"])
}

fn npm<'a>(work: &Path, words: impl IntoIterator<Item = &'a str>) -> Result<(), String> {
    let words: Vec<_> = words.into_iter().collect();
    let done = Command::new("npm").args(&words).current_dir(work).output();
    let done = done.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "npm is not installed".to_owned(),
        _ => format!("npm does not start: {error}"),
    })?;
    if done.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&done.stderr);
    let errors =
        errors.lines().find(|line| line.contains("error")).unwrap_or("it does not say why");
    Err(format!("npm {} failed: {}", words[0], errors.trim()))
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if !from.is_dir() {
        return fs::copy(from, to).map(|_| ());
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        copy(&path, &to.join(path.file_name().unwrap_or(OsStr::new(""))))?;
    }
    Ok(())
}

/// Returns the files as Rust source.
fn files(work: &Path) -> String {
    let html = ("index.html", "text/html; charset=utf-8");
    let file = |(name, kind): (&str, &str)| {
        let path = if name == "index.html" { "/".to_owned() } else { format!("/{name}") };
        let bytes = work.join(name).display().to_string();
        format!("File {{ path: {path:?}, kind: {kind:?}, bytes: include_bytes!({bytes:?}) }}")
    };
    let all: Vec<_> = [html].into_iter().chain(MADE).map(file).collect();
    format!("Ok(&[{}])", all.join(", "))
}
