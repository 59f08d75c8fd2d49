//! What the daemon gives up before it serves anybody.
//!
//! All threads inherit it from the first one, so it is done before there is another.
//!
//! The list of system calls names those that are refused. One of those that are allowed would be
//! shorter to defend, but the interfaces' side of the daemon (netlink, BPF, AF_XDP, namespaces,
//! io_uring) takes calls that depend on kernel and C library, and a call that is missing there stops
//! a service. Of an attacker who gets hold of a thread the list takes what he would like most: new
//! programs, other processes' execution, modules, clocks, identities, keys, files by handle.
//!
//! Landlock is not used: a thread that it restricts may neither read the memory of clients
//! (`process_vm_readv` counts as tracing them) nor take the mount away at the end.

use std::collections::BTreeMap;

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter};

/// What serving takes: the mount and other users' namespaces; the memory of clients and their
/// files behind `/proc`; interfaces.
const KEPT: CapabilitySet = CapabilitySet::SYS_ADMIN
    .union(CapabilitySet::SYS_PTRACE)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::NET_ADMIN)
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::BPF)
    .union(CapabilitySet::PERFMON)
    .union(CapabilitySet::IPC_LOCK);

/// Calls that no thread of the daemon makes.
const REFUSED: &[i64] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_adjtimex,
    libc::SYS_chroot,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_finit_module,
    libc::SYS_init_module,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mknodat,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_perf_event_open,
    libc::SYS_personality,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_setfsgid,
    libc::SYS_setfsuid,
    libc::SYS_setgid,
    libc::SYS_setgroups,
    libc::SYS_sethostname,
    libc::SYS_setregid,
    libc::SYS_setresgid,
    libc::SYS_setresuid,
    libc::SYS_setreuid,
    libc::SYS_settimeofday,
    libc::SYS_setuid,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mknod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
];

/// Gives all of it up; what could not be, in words.
pub(crate) fn confine() -> Vec<String> {
    let done = [
        drop_capabilities().map_err(|error| format!("capabilities stay as they were: {error}")),
        refuse_calls().map_err(|why| format!("all system calls stay allowed: {why}")),
    ];
    done.into_iter().filter_map(Result::err).collect()
}

fn drop_capabilities() -> rustix::io::Result<()> {
    for one in CapabilitySet::all().difference(KEPT).iter() {
        // The kernel may not know it, and who may not change the set has little in it.
        let _ = remove_capability_from_bounding_set(one);
    }
    let _ = clear_ambient_capability_set();
    let CapabilitySets { effective, permitted, .. } = capabilities(None)?;
    let kept = CapabilitySets {
        effective: effective.intersection(KEPT),
        permitted: permitted.intersection(KEPT),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, kept)?;
    set_no_new_privs(true)
}

fn refuse_calls() -> Result<(), String> {
    let rules: BTreeMap<_, _> = REFUSED.iter().map(|&call| (call, Vec::new())).collect();
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| error.to_string())?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch);
    let program = BpfProgram::try_from(filter.map_err(|error| error.to_string())?);
    apply_filter(&program.map_err(|error| error.to_string())?).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_confined_thread_starts_no_program_and_its_threads_neither() {
        // Of this thread and those that it starts; other tests are others'.
        let confined = std::thread::spawn(|| {
            let missing = confine();
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
        assert_eq!(u64::from_str_radix(line, 16).unwrap() & !KEPT.bits(), 0, "{status}");
        assert_eq!(started.unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
    }
}
