//! The memory that a port with default rings needs in addition to its region: by how much the
//! resident memory of this process grows when it opens the port, minus the size of the region.

use super::lab::{BenchLab, OUTPUT_IFNAME};
use super::measure::{BenchError, BenchReading};
use super::row::{BenchRound, BenchRow, ContenderRole, GoalMetric, RowUnit};
use super::veth::{InterfacePath, open};

/// Maximum growth in addition to the memory region, in bytes: 16 MiB.
const MAX_OVERHEAD_BYTES: f64 = (16 << 20) as f64;
const REGION_NAME: &str = "region";

/// The row for one kind of port.
pub(crate) fn row(path: InterfacePath, name: &str) -> BenchRow {
    BenchRow::new(
        format!("memory-{name}"),
        format!("memory of a {name} port beside its region"),
        RowUnit::Bytes,
    )
    .with(ContenderRole::Ours, "slipring", move || round(path))
    .goal(GoalMetric::Value, MAX_OVERHEAD_BYTES)
}

fn round(path: InterfacePath) -> Result<BenchRound, BenchError> {
    let lab = BenchLab::new()?;
    Ok(Box::new(move |_| {
        let before = resident()?;
        let mut ports = lab.hold(|| Ok(open(path, &[OUTPUT_IFNAME])?))?;
        let more = resident()?.saturating_sub(before);
        let region = ports.parts().0[0].queues[0].rings().tx.region().size();
        let extra = vec![(REGION_NAME, region as f64)];
        Ok(BenchReading { value: more.saturating_sub(region) as f64, per_cpu_second: None, extra })
    }))
}

/// Returns how many bytes of this process's mappings are in memory, including files and shared
/// memory.
fn resident() -> Result<u64, BenchError> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup")?;
    resident_of(&text).ok_or_else(|| BenchError::Failed("smaps_rollup has no Rss".into()))
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
