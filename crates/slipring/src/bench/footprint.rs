//! Memory of a port with default rings: what this process holds more of once it is open.

use super::lab::{Lab, OUTPUT};
use super::measure::{Reading, Why};
use super::row::{Bout, Of, Role, Row, Unit};
use super::veth::{Path, open};

/// The most that is right: 16 MiB beside the region.
const BOUND: f64 = (16 << 20) as f64;
const REGION: &str = "region";

/// The row for one kind.
pub(crate) fn row(path: Path, name: &str) -> Row {
    Row::new(
        format!("memory-{name}"),
        format!("memory of a {name} port beside its region"),
        Unit::Bytes,
    )
    .with(Role::Ours, "slipring", move || bout(path))
    .goal(Of::Value, BOUND)
}

fn bout(path: Path) -> Result<Bout, Why> {
    let lab = Lab::new()?;
    Ok(Box::new(move |_| {
        let before = resident()?;
        let mut ports = lab.hold(|| Ok(open(path, &[OUTPUT])?))?;
        let more = resident()?.saturating_sub(before);
        let region = ports.parts().0[0].queues[0].rings().tx.region().size();
        let extra = vec![(REGION, region as f64)];
        Ok(Reading { value: more.saturating_sub(region) as f64, per_cpu_second: None, extra })
    }))
}

/// Bytes of this process's mappings that are in memory, files and shared memory included.
fn resident() -> Result<u64, Why> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup")?;
    resident_of(&text).ok_or_else(|| Why::Failed("smaps_rollup has no Rss".into()))
}

fn resident_of(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_read_in_bytes() {
        let text = "55d0-7ffc ---p 0 00:00 0 [rollup]\nRss:      5132 kB\nPss:  10 kB\n";
        assert_eq!(resident_of(text), Some(5132 * 1024));
        assert_eq!(resident_of(""), None);
    }
}
