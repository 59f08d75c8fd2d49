//! What the daemon gives up before it serves anybody.
//!
//! All threads inherit it from the first one, so it is done before there is another. Mounts,
//! namespaces, BPF and the memory of clients are what serving takes; what no program needs is
//! refused here as well ([`slipring_confine::NEVER`]).
//!
//! Landlock is not used: a thread that it restricts may neither read the memory of clients
//! (`process_vm_readv` counts as tracing them) nor take the mount away at the end.

use slipring_cli::metrics::is_reserved;
use slipring_confine::{CapabilitySet, FORBIDDEN_CALLS};

/// What serving takes: the mount and other users' namespaces; the memory of clients and their
/// files behind `/proc`; interfaces.
const KEPT_CAPABILITIES: CapabilitySet = CapabilitySet::SYS_ADMIN
    .union(CapabilitySet::SYS_PTRACE)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::NET_ADMIN)
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::BPF)
    .union(CapabilitySet::PERFMON)
    .union(CapabilitySet::IPC_LOCK);

/// Gives up all but that; what could not be, in words. `metrics` is where counters are going to be
/// served, if anywhere.
pub(crate) fn confine(metrics: Option<&str>) -> Vec<String> {
    let listening = match metrics.is_some_and(is_reserved) {
        true => CapabilitySet::NET_BIND_SERVICE,
        false => CapabilitySet::empty(),
    };
    slipring_confine::confine(KEPT_CAPABILITIES | listening, &[FORBIDDEN_CALLS])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_confined_thread_starts_no_program_and_its_threads_neither() {
        // Of this thread and those that it starts; other tests are others'.
        let confined = std::thread::spawn(|| {
            let missing = confine(None);
            let status = || std::fs::read_to_string("/proc/thread-self/status").unwrap();
            let inner = std::thread::spawn(move || {
                (status(), std::process::Command::new("/bin/true").status())
            });
            let (status, started) = inner.join().unwrap();
            (missing, status, started)
        });
        let (missing, status, started) = confined.join().unwrap();
        if !missing.is_empty() {
            return println!("skipped: {missing:?}");
        }
        assert!(status.contains("\nNoNewPrivs:\t1\n"), "{status}");
        assert!(status.contains("\nSeccomp:\t2\n"), "{status}");
        let line = status.lines().find_map(|line| line.strip_prefix("CapEff:\t")).unwrap();
        assert_eq!(
            u64::from_str_radix(line, 16).unwrap() & !KEPT_CAPABILITIES.bits(),
            0,
            "{status}"
        );
        assert_eq!(started.unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
    }
}
