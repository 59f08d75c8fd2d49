//! Tests of the commands that messages advise. `advice/table.txt` says how each one is tested. A
//! command that mends something is run in the situation in which its message appears, and then the
//! failed action is repeated. The commands are found in the sources, so a new command makes a test
//! fail until it is in the table.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use slipring_test_support::{FinishedProgram, Namespace, Program, skip, user_namespaces_allowed};

use crate::support::SLIPRING;

const TABLE: &str = include_str!("advice/table.txt");
const WALKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/looking/advice/walks.sh");

/// Beginnings of commands that a message advises.
const PROGRAMS: [&str; 27] = [
    "sudo ",
    "slipring ",
    "ip ",
    "sysctl ",
    "ethtool ",
    "modprobe ",
    "ulimit ",
    "chmod ",
    "chown ",
    "echo ",
    "apt-get ",
    "systemctl ",
    "cpupower ",
    "bpftool ",
    "editcap",
    "gunzip ",
    "df ",
    "ls ",
    "dmesg",
    "mount ",
    "file ",
    "nproc",
    "taskset ",
    "unshare ",
    "docker ",
    "(umask ",
    "kill ",
];
/// Texts that can precede a command that is not at the beginning.
const BEFORE: [&str; 7] = ["\n", ": ", "; ", " or ", "`", "(", ", "];
/// Texts that end a command.
const AFTER: [&str; 6] = ["\n", "`", ";", ", ", "), ", " ("];

/// How a command is tested.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Walk(String),
    Run(String),
    Test(String),
    /// The command cannot be run here, or the text is not a command.
    Not,
}

fn table() -> BTreeMap<String, Fate> {
    let lines = TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let entry = |line: &str| {
        let (command, fate) = line.rsplit_once(" => ").unwrap_or_else(|| panic!("{line}"));
        let (kind, rest) = fate.split_once(' ').unwrap_or((fate, ""));
        let fate = match (kind, rest) {
            ("walk", name) if !name.is_empty() => Fate::Walk(name.to_owned()),
            ("run", "") => Fate::Run(command.to_owned()),
            ("run", line) => Fate::Run(line.to_owned()),
            ("test", name) if !name.is_empty() => Fate::Test(name.to_owned()),
            ("not", reason) if !reason.is_empty() => Fate::Not,
            ("word", "") => Fate::Not,
            _ => panic!("{line}"),
        };
        (command.to_owned(), fate)
    };
    lines.map(entry).collect()
}

/// Collects the Rust files below a directory.
fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for path in entries.map(|entry| entry.unwrap().path()) {
        match path.is_dir() {
            true => sources(&path, found),
            false if path.extension().is_some_and(|end| end == "rs") => found.push(path),
            false => {}
        }
    }
}

/// Returns the test modules of a source file: their paths without the extension.
fn modules_of_tests(path: &Path) -> Vec<PathBuf> {
    let source = fs::read_to_string(path).unwrap();
    let is_root = ["lib.rs", "main.rs"].iter().any(|name| path.ends_with(name));
    let dir = if is_root { path.with_file_name("") } else { path.with_extension("") };
    let after = source.split("#[cfg(test)]\nmod ").skip(1);
    let names = after.filter_map(|rest| rest.lines().next()?.strip_suffix(';'));
    names.map(|name| dir.join(name)).collect()
}

fn crates() -> Vec<PathBuf> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    fs::read_dir(crates).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// Returns the string literals of a source file before its test module, as the program contains
/// them.
fn literals(source: &str) -> Vec<String> {
    let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    let source = lines.collect::<Vec<_>>().join("\n").replace("'\"'", "' '");
    let (mut rest, mut found) = (source.as_str(), Vec::new());
    while let Some(at) = rest.find('"') {
        let is_raw = rest[..at].ends_with("r#");
        rest = &rest[at + 1..];
        if is_raw {
            let end = rest.find("\"#").unwrap_or(rest.len());
            found.push(rest[..end].to_owned());
            rest = rest.get(end + 2..).unwrap_or_default();
            continue;
        }
        let (mut text, mut letters) = (String::new(), rest.chars());
        while let Some(letter) = letters.next().filter(|letter| *letter != '"') {
            match (letter, letter == '\\') {
                (_, true) => match letters.next() {
                    Some('\n') => letters = letters.as_str().trim_start().chars(),
                    Some('n') => text.push('\n'),
                    other => text.extend(other),
                },
                (letter, false) => text.push(letter),
            }
        }
        rest = letters.as_str();
        found.push(text);
    }
    found
}

/// Returns the commands in a text.
fn commands(text: &str) -> Vec<String> {
    let mut begins = vec![0];
    for mark in BEFORE {
        begins.extend(text.match_indices(mark).map(|(at, _)| at + mark.len()));
    }
    let texts = begins.into_iter().map(|at| text[at..].trim_start_matches(' '));
    let texts = texts.filter(|text| PROGRAMS.iter().any(|program| text.starts_with(program)));
    texts.map(command).collect()
}

/// Returns the command at the start of a text.
fn command(text: &str) -> String {
    // The `;` inside a subshell does not end the command.
    let ends = AFTER.iter().filter(|end| !(text.starts_with("(umask") && **end == ";"));
    let end = ends.filter_map(|end| text.find(end)).min().unwrap_or(text.len());
    let command = text[..end].trim();
    match command.matches(')').count() > command.matches('(').count() {
        true => command.trim_end_matches(')').to_owned(),
        false => command.to_owned(),
    }
}

/// Returns every command that a message of the product advises.
fn advised() -> BTreeSet<String> {
    let mut files = Vec::new();
    let of_product = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name != "compat-tests" && name != "test-support")
    };
    crates().iter().filter(|path| of_product(path)).for_each(|path| {
        sources(&path.join("src"), &mut files);
    });
    let of_tests: Vec<_> = files.iter().flat_map(|path| modules_of_tests(path)).collect();
    let is_test = |path: &Path| {
        let shown = path.to_string_lossy();
        let is_in = |module: &PathBuf| path.with_extension("").starts_with(module);
        shown.contains("/tests") || shown.contains("/bench") || of_tests.iter().any(is_in)
    };
    let texts = files
        .iter()
        .filter(|path| !is_test(path))
        .flat_map(|path| literals(&fs::read_to_string(path).unwrap()));
    // Examples are left out, because another test takes them from the help texts and parses them.
    let texts = texts.filter(|text| !text.contains("Examples:"));
    texts.flat_map(|text| commands(&text)).collect()
}

#[test]
fn every_command_that_is_advised_is_walked_or_says_why_it_cannot_be() {
    let (advised, table) = (advised(), table());
    let new: Vec<_> = advised.iter().filter(|command| !table.contains_key(*command)).collect();
    assert!(new.is_empty(), "advice that advice/table.txt does not know: {new:#?}");
    let old: Vec<_> = table.keys().filter(|command| !advised.contains(*command)).collect();
    assert!(old.is_empty(), "advice/table.txt knows what nobody advises: {old:#?}");
}

#[test]
fn commands_are_found_wherever_a_message_has_them() {
    let source = "a(\"see it: ip link; or `ls -l` (df -h .), or \\\n   nproc\")";
    let found: Vec<_> = literals(source).iter().flat_map(|text| commands(text)).collect();
    let found: BTreeSet<_> = found.iter().map(String::as_str).collect();
    assert_eq!(found, BTreeSet::from(["df -h .", "ip link", "ls -l", "nproc"]));
}

#[test]
fn tests_that_walk_advice_exist() {
    let mut files = Vec::new();
    for path in crates() {
        sources(&path.join("tests"), &mut files);
    }
    let all: String = files.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    for (command, fate) in table() {
        if let Fate::Test(name) = fate {
            assert!(all.contains(&format!("fn {name}(")), "`{command}`: no test {name}");
        }
    }
}

/// Runs a part of the script; `None` if this machine cannot.
fn walked(words: &[&str]) -> Option<FinishedProgram> {
    if !rustix::process::geteuid().is_root() {
        skip!("mounts and other users take root");
        return None;
    }
    let namespace = Namespace::new()?;
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", WALKS]).args(words).env("BINARY", SLIPRING);
    command.env("SLIPRING_RUN", "/mnt/run");
    Some(Program::launch(&namespace, command).finish())
}

#[test]
fn what_is_advised_mends_what_failed() {
    let names = table().into_values().filter_map(|fate| match fate {
        Fate::Walk(name) => Some(name),
        _ => None,
    });
    let mut wrong = Vec::new();
    for name in names.collect::<BTreeSet<_>>() {
        let Some(ended) = walked(&[&format!("walk_{name}")]) else { return };
        if ended.code() != 0 {
            wrong.push((name, ended));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn what_is_advised_to_be_looked_at_or_taken_as_an_example_works_as_it_stands() {
    let lines = table().into_values().filter_map(|fate| match fate {
        Fate::Run(line) => Some(line),
        _ => None,
    });
    let mut lines: BTreeSet<_> = lines.collect();
    if !user_namespaces_allowed() {
        lines.retain(|line| !line.starts_with("unshare"));
    }
    let list = tempfile::NamedTempFile::new().unwrap();
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(list.path(), lines).unwrap();
    let Some(ended) = walked(&["runs", list.path().to_str().unwrap()]) else { return };
    assert_eq!(ended.code(), 0, "{}{}", ended.stdout, ended.stderr);
}
