//! Measures nanoseconds per frame for rule lists of several lengths, with the plain interpreter and
//! with compiled rules. Parsing the headers is included.
//!
//! `cargo run --release -p slipring-ipfw --example ipfw_cost`

use std::time::Instant;

use slipring_ipfw::run::{CheckOutputs, Firewall, PacketMetadata, RuleVerdict};
use slipring_wire::FrameSpec;

const FRAMES: u32 = 2_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let skipped = |count: usize| -> String {
        (0..count)
            .map(|i| format!("add deny ip from 192.168.{}.{} to any\n", i / 250, i % 250))
            .collect()
    };
    for (name, rules) in [
        ("one allow", String::new()),
        ("10 src-host rules first", skipped(10)),
        ("100", skipped(100)),
        ("1000", skipped(1000)),
        ("keep-state, one flow", "add allow udp from any to any keep-state\n".into()),
        ("table of 1000", table(1000)),
    ] {
        let rules = format!("{rules}add allow ip from any to any");
        println!("{name:24} {:8.1} ns, ready {:8.1} ns", cost(&rules, true)?, cost(&rules, false)?);
    }
    Ok(())
}

fn table(count: usize) -> String {
    let entries: Vec<_> =
        (0..count).map(|i| format!("192.168.{}.{} 1", i / 250, i % 250)).collect();
    format!("table t create\ntable t add {}\nadd deny ip from table(t) to any\n", entries.join(" "))
}

fn cost(rules: &str, plain: bool) -> Result<f64, Box<dyn std::error::Error>> {
    let mut firewall = Firewall::new(1, [1, 2]);
    firewall.set_plain(plain);
    firewall.load(rules, 0)?;
    let mut frame = FrameSpec::default().build(64)?.bytes.to_vec();
    let (mut crossing, mut outputs) = (PacketMetadata::incoming(0), CheckOutputs::default());
    let frames = if rules.len() > 20_000 { FRAMES / 20 } else { FRAMES };
    let start = Instant::now();
    for _ in 0..frames {
        let verdict = firewall.check(&mut frame, &mut crossing, 0, &mut outputs);
        assert_eq!(verdict, RuleVerdict::Accept);
    }
    Ok(start.elapsed().as_nanos() as f64 / f64::from(frames))
}
