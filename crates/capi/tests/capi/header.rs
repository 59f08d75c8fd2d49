//! Compares `include/slipring.h` with the Rust sources: functions, structures and numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use slipring_test_support::tree::root;

/// The C type for each Rust type.
const TYPES: &[(&str, &str)] = &[
    ("Option<&PortHandle>", "struct slipring_port *"),
    ("Option<Box<PortHandle>>", "struct slipring_port *"),
    ("OutPointer<'_, *mut PortHandle>", "struct slipring_port **"),
    ("*mut PortHandle", "struct slipring_port *"),
    ("*mut *mut PortHandle", "struct slipring_port **"),
    ("Option<&NetworkHandle>", "struct slipring_network *"),
    ("Option<Box<NetworkHandle>>", "struct slipring_network *"),
    ("OutPointer<'_, *mut NetworkHandle>", "struct slipring_network **"),
    ("Option<&SwitchHandle>", "struct slipring_switch *"),
    ("Option<Box<SwitchHandle>>", "struct slipring_switch *"),
    ("OutPointer<'_, *mut SwitchHandle>", "struct slipring_switch **"),
    ("*const SlipringSwitchOptions", "const struct slipring_switch_options *"),
    ("*mut SlipringSwitchStats", "struct slipring_switch_stats *"),
    ("OutPointer<'_, u32>", "uint32_t *"),
    ("*const SlipringOptions", "const struct slipring_options *"),
    ("*const SlipringNetworkOptions", "const struct slipring_network_options *"),
    ("*mut SlipringPortInfo", "struct slipring_port_info *"),
    ("*mut SlipringStats", "struct slipring_stats *"),
    ("*mut SlipringWait", "struct slipring_wait *"),
    ("*mut SlipringDelivery", "struct slipring_delivery *"),
    ("*mut SlipringLoss", "struct slipring_loss *"),
    ("*mut SlipringLinkStats", "struct slipring_link_stats *"),
    ("*mut NetmapRing", "struct netmap_ring *"),
    ("OutPointer<'_, usize>", "size_t *"),
    ("OutPointer<'_, u64>", "uint64_t *"),
    ("*const *const c_char", "const char *const *"),
    ("*const c_char", "const char *"),
    ("*const c_void", "const void *"),
    ("*mut c_void", "void *"),
    ("*const u8", "const uint8_t *"),
    ("u32", "uint32_t"),
    ("u64", "uint64_t"),
    ("i64", "int64_t"),
    ("usize", "size_t"),
    ("c_int", "int"),
    ("", "void"),
];

fn c_type(rust: &str) -> &'static str {
    let found = TYPES.iter().find(|(ours, _)| *ours == rust);
    found.unwrap_or_else(|| panic!("`{rust}` has no type in C")).1
}

/// Returns the declaration of `name` as the header has it: the C type for `rust`, and the name.
fn declared(rust: &str, name: &str) -> String {
    let c = c_type(rust);
    if c.ends_with('*') { format!("{c}{name}") } else { format!("{c} {name}") }
}

/// Returns the text of each source file of the crate.
fn sources() -> Vec<String> {
    let mut found = Vec::new();
    let mut dirs = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                found.push(fs::read_to_string(path).unwrap());
            }
        }
    }
    found
}

/// Returns the header without comments, preprocessor lines and lines that start with `extern`.
/// Words are separated by single spaces.
fn header() -> String {
    let text = fs::read_to_string(root().join("include/slipring.h")).unwrap();
    let mut plain = String::new();
    let mut rest = text.as_str();
    while let Some((before, comment)) = rest.split_once("/*") {
        plain += before;
        rest = comment.split_once("*/").unwrap().1;
    }
    plain += rest;
    let lines = plain.lines().filter(|line| !line.starts_with('#') && !line.starts_with("extern"));
    lines.collect::<Vec<_>>().join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Splits a text at the commas that are not in brackets.
fn split_arguments(text: &str) -> Vec<String> {
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for c in text.chars() {
        match c {
            '<' | '(' => depth += 1,
            '>' | ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        parts.last_mut().unwrap().push(c);
    }
    let trimmed = parts.iter().map(|part| part.trim().to_owned());
    trimmed.filter(|part| !part.is_empty()).collect()
}

/// Returns the body of each exported function, by the function's declaration in C.
fn functions() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for source in sources() {
        for part in source.split("extern \"C\" fn ").skip(1) {
            let (name, rest) = part.split_once('(').unwrap();
            if !name.starts_with("slipring_") {
                continue;
            }
            let (arguments, rest) = rest.split_once(") ").unwrap();
            let (result, body) = rest.split_once('{').unwrap();
            let result = result.trim().trim_start_matches("->").trim();
            let arguments = split_arguments(arguments).into_iter().map(|argument| {
                let (name, rust) = argument.split_once(": ").unwrap();
                declared(rust, name)
            });
            let arguments: Vec<_> = arguments.collect();
            let arguments =
                if arguments.is_empty() { "void".to_owned() } else { arguments.join(", ") };
            let body = body.split("\n}").next().unwrap();
            found.insert(format!("{}({arguments})", declared(result, name)), body.to_owned());
        }
    }
    found
}

#[test]
fn the_header_declares_what_the_library_exports_and_nothing_else() {
    let header = header();
    let declarations = header.split(';').map(str::trim).filter(|part| part.ends_with(')'));
    // The text between two semicolons is a declaration of a function if it ends with a closing
    // parenthesis.
    let declared: BTreeSet<String> = declarations.map(str::to_owned).collect();
    let exported: BTreeSet<String> = functions().into_keys().collect();
    assert!(exported.len() > 40, "{exported:#?}");
    assert_eq!(declared, exported);
}

#[test]
fn every_exported_function_runs_where_a_panic_ends() {
    for (function, body) in functions() {
        let body = body.trim_start();
        let body = body
            .strip_prefix("const TEXT")
            .map_or(body, |rest| rest.split_once('\n').unwrap().1.trim_start());
        let body = body.strip_prefix("use std::os::fd::AsRawFd;\n").unwrap_or(body).trim_start();
        let body = body.strip_prefix("// SAFETY: promised by the caller.\n").unwrap_or(body);
        let guarded = ["entry::status(|| ", "entry::value("];
        assert!(
            guarded.iter().any(|start| body.trim_start().starts_with(start)),
            "{function}: {body}"
        );
    }
}

/// Returns the structures of the Rust code with their names and fields as the header should have
/// them.
fn structures() -> BTreeMap<String, Vec<String>> {
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/src/structs.rs")).unwrap();
    let mut found = BTreeMap::new();
    for part in text.split("pub struct ").skip(1) {
        let (name, rest) = part.split_once(" {").unwrap();
        let fields = rest.split_once('}').unwrap().0.lines().map(str::trim);
        let fields = fields.filter(|line| !line.is_empty()).map(|line| {
            let (name, rust) = line.trim_end_matches(',').split_once(": ").unwrap();
            let name = name.trim_start_matches("pub ");
            match rust.strip_prefix("[u8; ").and_then(|len| len.strip_suffix(']')) {
                Some(len) => format!("uint8_t {name}[{len}]"),
                None => declared(rust, name),
            }
        });
        let snake = name.chars().fold(String::new(), |mut snake, c| {
            if c.is_uppercase() && !snake.is_empty() {
                snake.push('_');
            }
            snake.extend(c.to_lowercase());
            snake
        });
        found.insert(snake, fields.collect());
    }
    found
}

#[test]
fn structures_have_the_same_fields_in_the_same_order() {
    let header = header();
    let structures = structures();
    assert_eq!(structures.len(), 10);
    for (name, fields) in structures {
        let start = format!("struct {name} {{");
        let (_, rest) = header.split_once(&start).unwrap_or_else(|| panic!("no {start}"));
        let inside = rest.split_once('}').unwrap().0;
        let mut in_header = Vec::new();
        for line in inside.split(';').map(str::trim).filter(|line| !line.is_empty()) {
            let (kind, names) = line.rsplit_once(' ').map_or(("", line), |_| {
                let first = line.find(',').unwrap_or(line.len());
                let at = line[..first].rfind([' ', '*']).unwrap() + 1;
                line.split_at(at)
            });
            let names = names.split(", ");
            in_header.extend(names.map(|name| format!("{kind}{name}")));
        }
        assert_eq!(in_header, fields, "{name}");
    }
}

#[test]
fn numbers_are_the_same() {
    let header = fs::read_to_string(root().join("include/slipring.h")).unwrap();
    let defines = header.lines().filter_map(|line| line.strip_prefix("#define SLIPRING_"));
    let defines = defines.filter_map(|line| {
        let (name, value) = line.split_once(' ')?;
        let value = value.split("/*").next().unwrap().trim();
        let inner = value.trim_start_matches("UINT32_C").trim_start_matches("UINT64_C");
        Some((name.to_owned(), inner.trim_matches(['(', ')']).to_owned()))
    });
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/src/structs.rs")).unwrap();
    let consts = text.lines().filter_map(|line| line.strip_prefix("pub const SLIPRING_"));
    let consts = consts.map(|line| {
        let (name, rest) = line.split_once(": ").unwrap();
        let value = rest.split_once(" = ").unwrap().1.trim_end_matches(';').replace('_', "");
        (name.to_owned(), value)
    });
    assert_eq!(defines.collect::<BTreeMap<_, _>>(), consts.collect::<BTreeMap<_, _>>());
}
