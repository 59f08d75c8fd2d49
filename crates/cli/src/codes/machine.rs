//! `SR03xx`: machine and privileges.

use super::entry::codes;

codes! {
    SR0301 Machine "user namespaces are not allowed" {
        cause: "Without root, slipring builds its private network in a user namespace, and this\n\
                system forbids ordinary users to make one.",
        remedy: "Run as root, or allow them.",
        example: "sysctl -e kernel.unprivileged_userns_clone user.max_user_namespaces\n\
                  sysctl -e kernel.apparmor_restrict_unprivileged_userns",
    }
    SR0302 Machine "a program that the command runs is missing" {
        cause: "The command runs another program, which is not installed or not in PATH.",
        remedy: "Install its package; the help line names it.",
        example: "apt-get install iproute2 iputils-ping iperf3",
    }
    SR0303 Machine "the device cannot be served" {
        cause: "slipringd could not mount /dev/netmap: it is not root, the kernel is older than\n\
                6.9 or has no FUSE, or another slipringd has the run directory.",
        remedy: "Run it as root on Linux 6.9 or newer, once for each run directory.",
        example: "modprobe fuse\n\
                  slipring daemon --run-dir /run/slipring",
    }
}
