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
//! are not affected. So a program calls it before it starts other threads. [`confine_as`] also
//! changes the user, of the same threads: in Linux, each thread has its own user.
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
use std::io;

use rustix::process::{Gid, Uid};
use rustix::thread::{
    CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_keep_capabilities, set_no_new_privs,
    set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter};

pub use calls::{BPF_CALL, FORBIDDEN_CALLS, SETUP_ONLY_CALLS};
pub use rustix::thread::CapabilitySet;

/// A user and a group, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserIds {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

/// Drops all capabilities except `kept`, and forbids the calls in `refused`, permanently. The
/// thread does not gain capabilities that are in `kept` but that it does not have.
///
/// Returns a message for each restriction that could not be applied; empty on success.
#[must_use]
pub fn confine(kept: CapabilitySet, refused: &[&[i64]]) -> Vec<String> {
    let left = drop_from_bounding_set(kept);
    confine_to(left, refused)
}

/// Like [`confine`], but the thread first becomes this user, in this group and no other. The
/// kernel then denies other users' files to the thread, and shows the files of the process in
/// `/proc` to root only.
///
/// # Errors
/// The kernel's error if the thread cannot become the user, such as EPERM without CAP_SETUID and
/// CAP_SETGID, or EINVAL if the user namespace does not have the user. Then the thread keeps its
/// capabilities, and no call is forbidden, but its bounding and ambient sets are already reduced,
/// and its groups may have changed.
pub fn confine_as(
    user: UserIds,
    kept: CapabilitySet,
    refused: &[&[i64]],
) -> io::Result<Vec<String>> {
    let left = drop_from_bounding_set(kept);
    // Without this, the kernel takes all capabilities from a thread that is no longer root. It
    // takes the effective ones in any case; `confine_to` sets them again.
    set_keep_capabilities(true)?;
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    set_thread_groups(&[])?;
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)?;
    Ok(confine_to(left, refused))
}

/// Sets these capabilities, and forbids the calls in `refused`. Returns a message for each step
/// that failed.
fn confine_to(left: rustix::io::Result<CapabilitySets>, refused: &[&[i64]]) -> Vec<String> {
    let dropped = left.and_then(|left| set_capabilities(None, left));
    let done = [
        dropped
            .and_then(|()| set_no_new_privs(true))
            .map_err(|error| format!("capabilities stay as they were: {error}")),
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

/// Removes all capabilities except `kept` from the sets from which a thread could regain them.
/// Returns those that the thread keeps.
fn drop_from_bounding_set(kept: CapabilitySet) -> rustix::io::Result<CapabilitySets> {
    for one in CapabilitySet::all().difference(kept).iter() {
        // The kernel may not know this capability, or may not permit its removal from the bounding
        // set. The error is ignored: `set_capabilities` takes the capability from the thread.
        let _ = remove_capability_from_bounding_set(one);
    }
    let _ = clear_ambient_capability_set();
    let CapabilitySets { effective, permitted, .. } = capabilities(None)?;
    Ok(CapabilitySets {
        effective: effective.intersection(kept),
        permitted: permitted.intersection(kept),
        inheritable: CapabilitySet::empty(),
    })
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
    fn a_thread_becomes_a_user_for_ever_with_the_kept_capabilities_and_its_threads_too() {
        let user = UserIds { uid: 65534, gid: 65533 };
        let kept = CapabilitySet::NET_ADMIN & effective();
        let status = || std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let thread = std::thread::spawn(move || {
            let missing = confine_as(user, kept, &[FORBIDDEN_CALLS])?;
            let inner = std::thread::spawn(status);
            Ok::<_, io::Error>((missing, [status(), inner.join().unwrap()]))
        });
        let (missing, statuses) = match thread.join().unwrap() {
            Ok((missing, statuses)) if missing.is_empty() => (missing, statuses),
            other => return slipring_test_support::skip!("{other:?}"),
        };
        for status in statuses {
            assert!(missing.is_empty() && status.contains("\nGroups:\t \n"), "{status}");
            for (key, id) in [("Uid", user.uid), ("Gid", user.gid)] {
                assert!(
                    status.contains(&format!("\n{key}:\t{id}\t{id}\t{id}\t{id}\n")),
                    "{status}"
                );
            }
            for set in ["CapPrm", "CapEff"] {
                assert!(status.contains(&format!("\n{set}:\t{:016x}\n", kept.bits())), "{status}");
            }
        }
        assert_ne!(rustix::process::geteuid().as_raw(), user.uid, "other threads stay as they are");
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
