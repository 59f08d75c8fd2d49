//! Confines this process and shows what it can still do.

use slipring_confine::{CapabilitySet, FORBIDDEN_CALLS, SETUP_ONLY_CALLS, confine};

fn main() -> std::io::Result<()> {
    for stays in confine(CapabilitySet::empty(), &[FORBIDDEN_CALLS, SETUP_ONLY_CALLS]) {
        println!("{stays}");
    }
    let status = std::fs::read_to_string("/proc/thread-self/status")?;
    let ours =
        |line: &&str| ["CapEff", "NoNewPrivs", "Seccomp:"].iter().any(|key| line.starts_with(key));
    status.lines().filter(ours).for_each(|line| println!("{line}"));
    println!("starting a program: {:?}", std::process::Command::new("true").status());
    Ok(())
}
