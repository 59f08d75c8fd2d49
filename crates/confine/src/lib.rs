//! Restricts a thread after its program has opened all files, ports and sockets that need
//! privileges.
//!
//! ```text
//!   start -- open ports, files, sockets -- confine() -- more threads -- frames ... end
//!            needs privileges                  |         inherit the restrictions
//!                                              '- capabilities: at most the named ones
//!                                                 NoNewPrivs
//!                                                 seccomp: the named calls fail with EPERM
//! ```
//!
//! [`confine`] restricts the calling thread and threads that it starts afterwards; existing threads
//! are not affected. So a program calls it before it starts other threads.
//!
//! The filter lists the forbidden calls, not the allowed ones. A list of allowed calls would be
//! stricter, but the calls that AF_XDP, io_uring, netlink and FUSE need depend on the kernel and
//! the C library, and a call missing from such a list would stop a running program. The filter
//! removes the calls that would help an attacker most after taking control of a thread: those that
//! execute programs, control other processes, load kernel modules, set clocks, change user or group
//! ids, access keys, mount file systems, change namespaces, or open files by handle. A forbidden
//! call fails with EPERM; the process is not killed.
//!
//! Landlock is not used: these programs open files whose names users type later, and the daemon
//! reads the memory of its clients, which Landlock forbids.
//!
//! # Not for
//! Processes that execute programs on behalf of their user, because the executed programs would
//! inherit the restrictions.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod calls;

use std::collections::BTreeMap;

use rustix::thread::{
    CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter};

pub use calls::{BPF_CALL, FORBIDDEN_CALLS, SETUP_ONLY_CALLS};
pub use rustix::thread::CapabilitySet;

/// Drops all capabilities except `kept`, and forbids the calls in `refused`, permanently. The
/// thread does not gain capabilities that are in `kept` but that it does not have.
///
/// Returns a message for each restriction that could not be applied; empty on success.
#[must_use]
pub fn confine(kept: CapabilitySet, refused: &[&[i64]]) -> Vec<String> {
    let done = [
        drop_capabilities(kept).map_err(|error| format!("capabilities stay as they were: {error}")),
        install_seccomp_filter(refused)
            .map_err(|why| format!("all system calls stay allowed: {why}")),
    ];
    done.into_iter().filter_map(Result::err).collect()
}

/// Returns the effective capabilities of the calling thread.
#[must_use]
pub fn effective() -> CapabilitySet {
    capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective)
}

fn drop_capabilities(kept: CapabilitySet) -> rustix::io::Result<()> {
    for one in CapabilitySet::all().difference(kept).iter() {
        // The kernel may not know this capability, or may not permit its removal from the bounding
        // set. The error is ignored: `set_capabilities` takes the capability from the thread.
        let _ = remove_capability_from_bounding_set(one);
    }
    let _ = clear_ambient_capability_set();
    let CapabilitySets { effective, permitted, .. } = capabilities(None)?;
    let left = CapabilitySets {
        effective: effective.intersection(kept),
        permitted: permitted.intersection(kept),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, left)?;
    set_no_new_privs(true)
}

fn install_seccomp_filter(calls: &[&[i64]]) -> Result<(), String> {
    let calls =
        calls.iter().flat_map(|calls| calls.iter()).flat_map(|&call| calls::syscall_numbers(call));
    let rules: BTreeMap<_, _> = calls.map(|call| (call, Vec::new())).collect();
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| error.to_string())?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch);
    let program = BpfProgram::try_from(filter.map_err(|error| error.to_string())?);
    apply_filter(&program.map_err(|error| error.to_string())?).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `work` in a confined thread and in a thread that the confined thread starts, and
    /// returns both results; `None` if the kernel does not support confinement.
    fn confined<T: Send + 'static>(
        kept: CapabilitySet,
        work: impl Fn() -> T + Clone + Send + 'static,
    ) -> Option<[T; 2]> {
        let thread = std::thread::spawn(move || {
            let missing = confine(kept, &[FORBIDDEN_CALLS, SETUP_ONLY_CALLS]);
            let inner = std::thread::spawn(work.clone());
            (missing, [work(), inner.join().unwrap()])
        });
        let (missing, done) = thread.join().unwrap();
        if !missing.is_empty() {
            slipring_test_support::skip!("{missing:?}");
            return None;
        }
        Some(done)
    }

    #[test]
    fn a_confined_thread_and_its_threads_start_no_program() {
        let start = || std::process::Command::new("/bin/true").status();
        for started in confined(CapabilitySet::empty(), start).into_iter().flatten() {
            assert_eq!(started.unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
        }
    }

    #[test]
    fn a_confined_thread_and_its_threads_have_the_named_capabilities_at_most() {
        let kept = CapabilitySet::NET_ADMIN;
        let status = || std::fs::read_to_string("/proc/thread-self/status").unwrap();
        for status in confined(kept, status).into_iter().flatten() {
            assert!(status.contains("\nNoNewPrivs:\t1\n"), "{status}");
            assert!(status.contains("\nSeccomp:\t2\n"), "{status}");
            for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
                let line = status.lines().find_map(|line| line.strip_prefix(set)).unwrap();
                let bits = u64::from_str_radix(line.trim_start_matches(":\t"), 16).unwrap();
                assert_eq!(bits & !kept.bits(), 0, "{set}: {status}");
            }
        }
    }

    #[test]
    fn a_confined_thread_enters_and_makes_no_namespace() {
        let netns = || {
            let own = std::fs::File::open("/proc/thread-self/ns/net").unwrap();
            let network = Some(rustix::thread::LinkNameSpaceType::Network);
            rustix::thread::move_into_link_name_space(std::os::fd::AsFd::as_fd(&own), network)
        };
        for entered in confined(CapabilitySet::all(), netns).into_iter().flatten() {
            assert_eq!(entered, Err(rustix::io::Errno::PERM));
        }
    }
}
