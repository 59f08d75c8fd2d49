//! Tests of `slipring run`, in the tests' own network namespaces: as root and as an ordinary user.
#![allow(clippy::unwrap_used)]

#[path = "../support/mod.rs"]
mod support;

mod http;
mod link;
mod names;
mod outputs;
mod status;
mod traces;
mod users;

use std::ops::Range;
use std::process::Command;

use slipring_test_support::{FinishedProgram, Namespace, Program, eventually};

use support::SLIPRING;

/// A namespace that simulates the outside world: its address is 10.9.0.1, it has a default route
/// (to no host), and it forwards.
fn world() -> Option<Namespace> {
    let world = Namespace::new()?;
    for words in [
        "link add ext type veth peer name far",
        "link set far up",
        "addr add 10.9.0.1/24 dev ext",
        "addr add fd09::1/64 dev ext nodad",
        "link set ext up",
        "route add default via 10.9.0.254",
    ] {
        world.ip(words);
    }
    forward(&world, true);
    Some(world)
}

/// Switches forwarding on or off, in the namespace only.
fn forward(world: &Namespace, on: bool) {
    let value = if on { "1" } else { "0" };
    world.run(move || std::fs::write("/proc/sys/net/ipv4/ip_forward", value)).unwrap();
}

/// Returns `slipring run FLAGS -- sh -c SCRIPT`.
fn command(mut slipring: Command, flags: &str, script: &str) -> Command {
    slipring.arg("run").args(flags.split_ascii_whitespace()).args(["--", "sh", "-c", script]);
    slipring
}

/// Starts `slipring run` as root.
fn start(world: &Namespace, flags: &str, script: &str) -> Program {
    Program::launch(world, command(Command::new(SLIPRING), flags, script))
}

/// Runs `slipring run` as root until it ends.
fn run(world: &Namespace, flags: &str, script: &str) -> FinishedProgram {
    start(world, flags, script).finish()
}

/// Returns ping's minimum round trip in milliseconds.
fn round_trip_ms(output: &str) -> f64 {
    let line = output.lines().find(|line| line.starts_with("rtt ")).expect(output);
    let figures = line.split(" = ").nth(1).unwrap();
    figures.split('/').next().unwrap().parse().unwrap()
}

/// Repeats a run until ping's round trip is in `range`, in milliseconds. On a busy machine any
/// round trip may be late, but none may be early.
fn round_trip_takes(range: &Range<f64>, run: impl Fn() -> FinishedProgram) {
    eventually("a run that is not late", || {
        let ended = run().well();
        let ms = round_trip_ms(&ended.stdout);
        assert!(ms >= range.start, "not {range:?}: {ended:#?}");
        range.contains(&ms).then_some(())
    });
}

/// Returns what a run might leave in a namespace: links, and NAT tables.
fn things(world: &Namespace) -> (Vec<String>, String) {
    let links = world.ip("-brief link");
    let names = links.lines().filter_map(|line| line.split_whitespace().next().map(str::to_owned));
    let tables = std::path::Path::new("/usr/sbin/nft").exists();
    let tables = tables.then(|| world.command("/usr/sbin/nft", "list ruleset"));
    (names.collect(), tables.unwrap_or_default())
}
