//! Measures how fast `slipring route` takes over full tables, and how much memory they use.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use slipring_port::now;
use slipring_rtnetlink::RouteFamily;

use super::install;
use super::path::{install_routes, routed_lab};
use super::running::RunningRouter;
use super::table::BenchTable;
use crate::lab::BenchLab;
use crate::measure::{BenchError, BenchReading, PROGRAM_CPU, pin};
use crate::row::{BenchRound, BenchRow, ContenderRole, GoalMetric, RowUnit};

const OURS_NAME: &str = "slipring route";
const MAX_LOAD_NS: f64 = 1e9;
const MAX_BYTES: f64 = (250 << 20) as f64;
const RESIDENT_NAME: &str = "resident";
const MAPS_NAME: &str = "BPF maps";
const ON_CPU_NAME: &str = "on CPU";
const DUMPS_NAME: &str = "the kernel's dumps";

/// The lab that both rows share.
type FullLab = Rc<RefCell<Option<Rc<BenchLab>>>>;

pub(super) fn rows() -> [BenchRow; 2] {
    let lab = FullLab::default();
    let row = |id: &str, title: &str, unit, measure: fn(&BenchLab) -> Result<_, _>, bound| {
        let (lab, title) = (lab.clone(), format!("route, 1 M + 210 k routes, {title} (--full)"));
        BenchRow::new(id, title, unit)
            .with(ContenderRole::Ours, OURS_NAME, move || round(&lab, measure))
            .goal(GoalMetric::Value, bound)
    };
    let floor_lab = lab.clone();
    let load =
        row("route-fib-load", "start to forwarding", RowUnit::Nanos, start_time, MAX_LOAD_NS);
    [
        load.with(ContenderRole::Floor, DUMPS_NAME, move || round(&floor_lab, dumps_time)),
        row("route-fib-memory", "memory", RowUnit::Bytes, memory, MAX_BYTES),
    ]
}

fn round(
    shared: &FullLab,
    measure: fn(&BenchLab) -> Result<BenchReading, BenchError>,
) -> Result<BenchRound, BenchError> {
    let mut shared = shared.borrow_mut();
    let lab = match &*shared {
        Some(lab) => lab.clone(),
        None => full_lab()?,
    };
    *shared = Some(lab.clone());
    Ok(Box::new(move |_| measure(&lab)))
}

fn full_lab() -> Result<Rc<BenchLab>, BenchError> {
    let families = [RouteFamily::V4, RouteFamily::V6];
    let lab = routed_lab(BenchLab::new()?, &families)?;
    for family in families {
        lab.within(|| install_routes(&BenchTable::full(family)))?;
    }
    Ok(lab)
}

/// Measures the time from the start of the program, with its threads on all CPUs, to its first use
/// of complete tables. Also measures the CPU time of the threads that keep running: other load on
/// the machine affects it less. It does not include threads that only read the dumps.
fn start_time(lab: &BenchLab) -> Result<BenchReading, BenchError> {
    let start = now();
    let router = RunningRouter::start_on_any_cpu(lab)?;
    let nanos = now() - start;
    let spent = router.cpu();
    let extra = vec![(ON_CPU_NAME, spent as f64)];
    Ok(BenchReading { value: nanos as f64, per_cpu_second: None, extra })
}

/// Measures how long the kernel takes to list its routes to a reader that ignores them.
fn dumps_time(lab: &BenchLab) -> Result<BenchReading, BenchError> {
    lab.within(|| {
        pin(PROGRAM_CPU);
        let start = now();
        install::list_routes(RouteFamily::V4)?;
        install::list_routes(RouteFamily::V6)?;
        Ok(BenchReading::of((now() - start) as f64))
    })
}

/// Measures the program's resident memory and its BPF maps. Resident memory includes the pages of
/// mapped maps, so a map that is mapped and still has a descriptor counts twice.
fn memory(lab: &BenchLab) -> Result<BenchReading, BenchError> {
    let router = RunningRouter::start(lab)?;
    let process = Path::new("/proc").join(router.child.0.id().to_string());
    let status = std::fs::read_to_string(process.join("status"))?;
    let field = |name| {
        kib_of(&status, name).ok_or_else(|| BenchError::Failed(format!("status has no {name}")))
    };
    let resident = field("VmRSS:")?;
    let mut maps = 0;
    for descriptor in std::fs::read_dir(process.join("fdinfo"))? {
        // The descriptor may have been closed meanwhile.
        let text = std::fs::read_to_string(descriptor?.path()).unwrap_or_default();
        maps += map_bytes_of(&text).unwrap_or(0);
    }
    let extra = vec![(RESIDENT_NAME, resident as f64), (MAPS_NAME, maps as f64)];
    Ok(BenchReading { value: (resident + maps) as f64, per_cpu_second: None, extra })
}

/// Returns the value in bytes of a field of `/proc/PID/status`, which is in KiB.
fn kib_of(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// Returns the size of a BPF map in bytes, from the `fdinfo` of its descriptor; `None` for other
/// descriptors.
fn map_bytes_of(fdinfo: &str) -> Option<u64> {
    let field = |name| fdinfo.lines().find_map(|line| line.strip_prefix(name));
    field("map_type:")?;
    field("memlock:")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_in_bytes() {
        let status = "Name:\tslipring\nVmRSS:\t    5132 kB\nRssAnon:\t      12 kB\n";
        assert_eq!(kib_of(status, "VmRSS:"), Some(5132 << 10));
        assert_eq!(kib_of(status, "RssAnon:"), Some(12 << 10));
        assert_eq!(kib_of(status, "RssFile:"), None);
    }

    #[test]
    fn only_descriptors_of_maps_count() {
        let map = "pos:\t0\nmap_type:\t2\nkey_size:\t4\nmemlock:\t33554720\nmap_id:\t7\n";
        assert_eq!(map_bytes_of(map), Some(33_554_720));
        assert_eq!(map_bytes_of("pos:\t0\nprog_type:\t6\nmemlock:\t4096\n"), None);
        assert_eq!(map_bytes_of("pos:\t0\n"), None);
    }
}
