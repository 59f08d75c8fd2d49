//! Drops privileges before the daemon serves clients.
//!
//! The restrictions are applied before the first thread starts others. So all threads inherit them.
//! Serving needs mounts, namespaces, BPF and access to the memory of clients. System calls that no
//! slipring program needs are also forbidden ([`slipring_confine::FORBIDDEN_CALLS`]).
//!
//! Landlock is not used. A thread that it restricts may not read the memory of clients, because
//! `process_vm_readv` counts as tracing them. It may also not unmount the device at the end.

use slipring_cli::metrics::is_reserved;
use slipring_confine::{CapabilitySet, FORBIDDEN_CALLS};

/// The capabilities that serving needs: for the mount and the namespaces of other users, for the
/// memory of clients and their files in `/proc`, and for interfaces.
const KEPT_CAPABILITIES: CapabilitySet = CapabilitySet::SYS_ADMIN
    .union(CapabilitySet::SYS_PTRACE)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::NET_ADMIN)
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::BPF)
    .union(CapabilitySet::PERFMON)
    .union(CapabilitySet::IPC_LOCK);

/// Drops all capabilities except [`KEPT_CAPABILITIES`] and, if `metrics` has a port below 1024,
/// CAP_NET_BIND_SERVICE. Also forbids system calls. Returns descriptions of the restrictions that
/// could not be applied. `metrics` is the address on which metrics will be served, if they are
/// served.
pub(crate) fn confine(metrics: Option<&str>) -> Vec<String> {
    let listening = match metrics.is_some_and(is_reserved) {
        true => CapabilitySet::NET_BIND_SERVICE,
        false => CapabilitySet::empty(),
    };
    slipring_confine::confine(KEPT_CAPABILITIES | listening, &[FORBIDDEN_CALLS])
}

#[cfg(test)]
mod tests {
    use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

    use super::*;

    /// The sync loop of a client refers to eventfds by the client's descriptor numbers
    /// (`NETMAP_REQ_OPT_SYNC_KLOOP_EVENTFDS`).
    #[test]
    fn a_confined_thread_still_fetches_the_descriptors_that_a_client_names() {
        let confined = std::thread::spawn(|| {
            let missing = confine(None);
            let own = pidfd_open(getpid(), PidfdFlags::empty()).unwrap();
            (missing, pidfd_getfd(&own, 0, PidfdGetfdFlags::empty()).err())
        });
        let (missing, refused) = confined.join().unwrap();
        if !missing.is_empty() {
            return slipring_test_support::skip!("{missing:?}");
        }
        assert_eq!(refused, None);
    }

    #[test]
    fn a_confined_thread_starts_no_program_and_its_threads_neither() {
        // This runs in a separate thread, so that other tests are not restricted.
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
            return slipring_test_support::skip!("{missing:?}");
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
