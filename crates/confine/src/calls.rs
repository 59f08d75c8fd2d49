//! Lists of system calls for [`confine`](crate::confine) to forbid.

/// System calls that no long-running program of slipring makes after its start.
pub const FORBIDDEN_CALLS: &[i64] = &[
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

/// The system call that changes BPF maps. It is one of [`SETUP_ONLY_CALLS`], but a process that
/// updates the maps of an attached BPF program always needs it. Without capabilities, such a
/// process can create neither maps nor BPF programs if `kernel.unprivileged_bpf_disabled` is set.
pub const BPF_CALL: i64 = libc::SYS_bpf;

/// System calls that may be needed to open ports, but not afterwards. They are for namespaces,
/// mounts, BPF, and other processes' memory and descriptors. The daemon always needs them, because
/// it opens ports for its clients.
pub const SETUP_ONLY_CALLS: &[i64] = &[
    libc::SYS_bpf,
    libc::SYS_fanotify_init,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_kcmp,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_pidfd_getfd,
    libc::SYS_process_madvise,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_setns,
    libc::SYS_umount2,
    libc::SYS_unshare,
];

/// Returns the numbers by which a system call can be made.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn syscall_numbers(call: i64) -> impl Iterator<Item = i64> {
    [call].into_iter()
}

/// Returns the numbers by which a system call can be made: kernels with x32 have a second number
/// for each call, and a third for some.
#[cfg(target_arch = "x86_64")]
pub(crate) fn syscall_numbers(call: i64) -> impl Iterator<Item = i64> {
    const X32: i64 = 0x4000_0000;
    let own = X32_SPECIFIC_CALLS.iter().find(|(of, _)| *of == call).map(|(_, number)| X32 | number);
    [Some(call), Some(X32 | call), own].into_iter().flatten()
}

/// The calls that have a separate number in the ABI x32, from
/// `arch/x86/entry/syscalls/syscall_64.tbl`.
#[cfg(target_arch = "x86_64")]
const X32_SPECIFIC_CALLS: &[(i64, i64)] = &[
    (libc::SYS_execve, 520),
    (libc::SYS_ptrace, 521),
    (libc::SYS_kexec_load, 528),
    (libc::SYS_process_vm_readv, 539),
    (libc::SYS_process_vm_writev, 540),
    (libc::SYS_execveat, 545),
];

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_refused_by_each_of_its_numbers() {
        let numbers = |call| syscall_numbers(call).collect::<Vec<_>>();
        assert_eq!(numbers(libc::SYS_execve), [59, 0x4000_003b, 0x4000_0208]);
        assert_eq!(numbers(libc::SYS_setuid), [105, 0x4000_0069]);
    }
}
