//! Tests that libnetmap and slipring parse names in the same way. Both parse many names.

use std::fs::{self, File};
use std::io::Write as _;
use std::num::{NonZeroU8, NonZeroU32};
use std::path::Path;
use std::process::Command;

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use slipring_abi::name::{MemorySource, PoolSpec, PortName, PortNameKind};
use slipring_test_support::tree::stdout;

use super::builds::{SYSTEM_LIBRARIES, c_program, libnetmap};

/// Returns what `tests/c/names.c` must print for a name; `None` if libnetmap and our parser are
/// known to differ.
fn expected(name: &str) -> Option<String> {
    let refused = Some("refused".to_owned());
    // libnetmap queries the device while it parses `@share`, and refuses a second `@extmem`, even
    // with the same file.
    if name.contains("@share") || name.matches("@extmem").count() > 1 {
        return None;
    }
    let Ok(port) = PortName::parse(name) else { return refused };
    // libnetmap has only two kinds of ports, and no short form for pipes.
    let known = match port.kind {
        PortNameKind::Netmap => name.starts_with("netmap:"),
        PortNameKind::Vale { .. } => true,
        _ => false,
    };
    if !known {
        return refused;
    }
    let extmem = match &port.memory {
        Some(MemorySource::External(memory)) if !Path::new(&memory.file).is_file() => {
            return refused;
        }
        Some(MemorySource::External(memory)) => {
            let n = |n: Option<NonZeroU32>| n.map_or(0, NonZeroU32::get);
            let pool = |pool: PoolSpec| format!("{},{}", n(pool.num), n(pool.size));
            let [ifs, rings, bufs] = [memory.interfaces, memory.rings, memory.buffers].map(pool);
            format!(" extmem={ifs},{rings},{bufs}")
        }
        _ => String::new(),
    };
    let offsets = port.offsets.map_or_else(String::new, |offsets| {
        format!(" offsets={},{}", offsets.initial, offsets.bits.map_or(0, NonZeroU8::get))
    });
    let r = port.to_register();
    Some(format!(
        "{} mode={},{} flags={} mem={} rings={},{},{},{} slots={},{}{extmem}{offsets}",
        port.request_name().unwrap(),
        r.nr_mode,
        r.nr_ringid,
        r.nr_flags,
        r.nr_mem_id,
        r.nr_tx_rings,
        r.nr_rx_rings,
        r.nr_host_tx_rings,
        r.nr_host_rx_rings,
        r.nr_tx_slots,
        r.nr_rx_slots,
    ))
}

/// Generates names whose parts are all likely to be valid. `file` must exist.
fn names(file: &str) -> impl Strategy<Value = String> {
    let kind = prop_oneof![
        8 => Just("netmap:"),
        4 => Just("vale:"),
        4 => Just("vale0:"),
        2 => Just("valeX_9:"),
        1 => Just("xdp:"),
        1 => Just("vale-1:"),
        1 => Just(""),
    ];
    let name = prop_oneof![
        8 => Just("eth0".to_owned()),
        2 => Just("br--lan".to_owned()),
        2 => "[a-z0-9._]{1,17}",
        1 => "n{40,64}",
        1 => "[-*^@a]{1,4}",
        1 => Just("é".to_owned()),
        1 => Just(".".to_owned()),
    ];
    let pipe =
        prop_oneof![4 => Just(String::new()), 2 => "[{}][a-zA-Z0-9_]{0,3}", 1 => "\\{n{1,30}"];
    let rings = prop_oneof![4 => Just(String::new()), 4 => "[-^][0-9]{0,3}", 1 => "-6553[0-9]", 1 => Just("*".to_owned())];
    let options = proptest::collection::vec(option(file), 0..4);
    (kind, name, pipe, rings, options).prop_map(|(kind, name, pipe, rings, options)| {
        format!("{kind}{name}{pipe}{rings}{}", options.concat())
    })
}

fn option(file: &str) -> impl Strategy<Value = String> + use<> {
    let key = "(tx-|rx-|tx_|host-tx-|host_rx_|host-|)(rings|slots)";
    let conf =
        proptest::collection::vec((key, "[0-9]{1,6}").prop_map(|(k, v)| format!("{k}={v}")), 0..3);
    let extmem = "(,(if|ring|buf)[-_](num|size)=[0-9]{1,3}){0,3}";
    let (long, short) = (format!("@extmem:file={file}"), format!("@extmem={file}"));
    prop_oneof![
        4 => "/[xztrTR]{1,3}",
        1 => "/[xq]{0,2}",
        3 => "@[0-9]{1,2}",
        4 => conf.prop_map(|pairs| format!("@conf:{}", pairs.join(","))),
        2 => "@offset:(initial=[0-9]{1,4}(,bits=[0-9]{1,2})?|bits=[0-9]{1,2},initial=[0-9]{1,4}|bits=9)",
        1 => "@offset=[0-9]{1,3}",
        2 => extmem.prop_map(move |sizes| format!("{long}{sizes}")),
        1 => Just(short),
        1 => "@share[:=]port=[a-z:0]{1,6}",
    ]
}

/// Returns the name with at most one character added, removed or changed.
fn damaged(name: String, at: usize, how: u8, with: char) -> String {
    let mut chars: Vec<char> = name.chars().collect();
    let at = at % (chars.len() + 1);
    match how % 3 {
        0 => chars.insert(at, with),
        1 if at < chars.len() => drop(chars.remove(at)),
        _ if at < chars.len() => chars[at] = with,
        _ => {}
    }
    chars.into_iter().collect()
}

fn many_names(file: &str) -> Vec<String> {
    let character = proptest::sample::select("-*^{}@/:=,_ax019 .".chars().collect::<Vec<_>>());
    let whole = names(file);
    let broken = (names(file), any::<usize>(), any::<u8>(), character)
        .prop_map(|(name, at, how, with)| damaged(name, at, how, with));
    let either = prop_oneof![whole, broken];
    let mut runner = TestRunner::deterministic();
    (0..20_000).map(|_| either.new_tree(&mut runner).unwrap().current()).collect()
}

#[test]
fn libnetmap_reads_names_as_slipring_does() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mem");
    File::create(&file).unwrap().write_all(&[0; 4096]).unwrap();
    let names = many_names(file.to_str().unwrap());
    let input = dir.path().join("names");
    fs::write(&input, names.join("\n") + "\n").unwrap();
    let library = libnetmap().join("libnetmap.a");
    let arguments = [&[library.to_str().unwrap()], &SYSTEM_LIBRARIES[..]].concat();
    let mut program = Command::new(c_program("names", &arguments));
    let output = stdout(program.stdin(File::open(&input).unwrap()).output().unwrap());
    let answers: Vec<&str> = output.lines().collect();
    assert_eq!(answers.len(), names.len());
    let mut accepted = 0;
    for (name, answer) in names.iter().zip(answers) {
        if let Some(expected) = expected(name) {
            assert_eq!(answer, expected, "{name:?}");
        }
        accepted += usize::from(answer != "refused");
    }
    assert!(accepted > names.len() / 10, "only {accepted} names were good");
}
