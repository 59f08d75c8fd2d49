//! Tests that the C headers agree with `slipring-abi` about every size, every offset and every
//! number.
//!
//! The Rust source is read as text, so that a field which is added there cannot be forgotten here.
//! The layout of the Rust structures is asserted when they are compiled.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use slipring_test_support::tree::stdout;

use super::builds::{built, include};

const SOURCES: [&str; 6] = [
    include_str!("../../../abi/src/ring.rs"),
    include_str!("../../../abi/src/request.rs"),
    include_str!("../../../abi/src/option.rs"),
    include_str!("../../../abi/src/legacy.rs"),
    include_str!("../../../abi/src/csb.rs"),
    include_str!("../../../abi/src/ioctl.rs"),
];

/// Names that the C headers do not have.
const RUST_ONLY: [&str; 7] = [
    "NETMAP_RING_TX",
    "NETMAP_RING_RX",
    "NETMAP_RING_SLOTS_OFS",
    "NETMAP_IF_RING_OFS",
    "SYNC_KLOOP_MAX_SLEEP_US",
    "KloopEventfds",
    "Timeval",
];

/// Returns the C name of a structure such as `NmreqHeader`.
fn c_name(name: &str) -> String {
    let mut c = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !c.is_empty() {
            c.push('_');
        }
        c.push(letter.to_ascii_lowercase());
    }
    c
}

/// Converts a line of Rust to a C assertion about a structure's size, a constant, or a field's
/// offset. Returns `None` if the line declares none of these, or only what C does not have.
/// `structure` is the structure that was declared last.
fn assertion(line: &str, structure: &mut String) -> Option<String> {
    let line = line.trim();
    if let Some((name, size)) = line.strip_prefix("struct ").and_then(|rest| rest.split_once(": "))
    {
        *structure = c_name(name);
        let size = size.trim_end_matches(" {");
        let known = !RUST_ONLY.contains(&name);
        return known
            .then(|| format!("_Static_assert(sizeof(struct {structure}) == {size}, \"{name}\");"));
    }
    if let Some(rest) = line.strip_prefix("pub const ") {
        let (name, value) = rest.trim_end_matches(';').split_once(" = ")?;
        let name = name.split(':').next()?;
        let known = !RUST_ONLY.contains(&name) && !value.contains('(');
        let digits = value.replace('_', "");
        let value = if digits.parse::<u64>().is_ok() { &digits } else { value };
        return known.then(|| format!("_Static_assert(({name}) == ({value}), \"{name}\");"));
    }
    let (offset, rest) = line.split_once(": ")?;
    let field = rest.split(':').next()?;
    let is_field = offset.parse::<u32>().is_ok() && !field.starts_with("pad");
    let known = is_field && !["kloop_eventfds", "timeval"].contains(&structure.as_str());
    known.then(|| {
        format!("_Static_assert(offsetof(struct {structure}, {field}) == {offset}, \"{field}\");")
    })
}

#[test]
fn the_c_headers_and_the_rust_crate_agree_on_everything() {
    let mut c = "#include <stddef.h>\n#include <net/netmap_user.h>\n".to_owned();
    let mut structure = String::new();
    let lines = SOURCES.iter().flat_map(|source| source.lines());
    let assertions = lines.filter_map(|line| assertion(line, &mut structure));
    let count = assertions.map(|line| writeln!(c, "{line}").unwrap()).count();
    assert!(count > 200, "only {count} statements were found");
    let source = built().join("layout.c");
    fs::write(&source, c).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-Wall", "-Werror", "-fsyntax-only", "-I"]).arg(include()).arg(source);
    stdout(cc.output().unwrap());
}

#[test]
fn the_headers_compile_alone_in_every_c_and_as_cplusplus() {
    let headers = [
        "net/netmap.h",
        "net/netmap_user.h",
        "net/netmap_legacy.h",
        "net/netmap_virt.h",
        "libnetmap.h",
    ];
    let languages =
        [("cc", "-std=gnu99", "c"), ("cc", "-std=gnu17", "c"), ("c++", "-std=c++11", "c++")];
    for (compiler, standard, language) in languages {
        for header in headers {
            let mut command = Command::new(compiler);
            command.args([
                standard,
                "-Wall",
                "-Werror",
                "-fsyntax-only",
                "-DNETMAP_WITH_LIBS",
                "-x",
                language,
            ]);
            command.arg("-I").arg(include()).args(["-include", header, "/dev/null"]);
            stdout(command.output().unwrap());
        }
    }
}
