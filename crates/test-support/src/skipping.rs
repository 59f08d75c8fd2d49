//! Tests that cannot run on this machine.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::sandbox::NOBODY;

/// Prints `skipped: ` and the reason, formatted as by `println!`; then the test returns.
///
/// `scripts/test.sh` counts such tests apart from those that passed. With `SLIPRING_NO_SKIP=1` it
/// fails if a reason matches no line of `.ci/may-skip`.
///
/// ```
/// # use slipring_test_support::skip;
/// # fn test() {
/// let file = match std::fs::File::open("/dev/fuse") {
///     Ok(file) => file,
///     Err(error) => return skip!("no /dev/fuse: {error}"),
/// };
/// # drop(file);
/// # }
/// # test();
/// ```
#[macro_export]
macro_rules! skip {
    ($($reason:tt)+) => {
        ::std::println!("skipped: {}", ::core::format_args!($($reason)+))
    };
}

/// Whether a program is installed; if not, prints that the test is skipped.
#[must_use]
pub fn installed(program: &str) -> bool {
    let dirs = ["/usr/bin", "/usr/sbin", "/bin", "/sbin", "/usr/local/bin"];
    let found = dirs.iter().any(|dir| Path::new(dir).join(program).exists());
    if !found {
        skip!("{program} is not installed");
    }
    found
}

/// Whether the tests run as root; if not, prints that the test is skipped, and for what it needs
/// root.
#[must_use]
pub fn is_root(what_for: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skip!("{what_for} needs root");
    }
    is_root
}

/// Whether ordinary users may create user namespaces on this machine; if not, prints that the test
/// is skipped, and the kernel's reason. The kernel forbids them in a chroot, for instance.
#[must_use]
pub fn user_namespaces_allowed() -> bool {
    let mut tried = Command::new("unshare");
    tried.args(["--user", "true"]);
    if rustix::process::geteuid().is_root() {
        tried.uid(NOBODY).gid(NOBODY);
    }
    let refusal = refusal(&mut tried);
    if let Some(why) = &refusal {
        skip!("no user namespaces for ordinary users: {why}");
    }
    refusal.is_none()
}

/// Why a command does not work; `None` if it does.
fn refusal(command: &mut Command) -> Option<String> {
    match command.output() {
        Ok(done) if done.status.success() => None,
        Ok(done) => Some(String::from_utf8_lossy(&done.stderr).trim_end().to_owned()),
        Err(error) => Some(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel makes no user namespace for a process in a chroot.
    #[test]
    fn a_kernel_that_forbids_user_namespaces_is_quoted() {
        if !is_root("to change the root directory") {
            return;
        }
        let script = "mount --rbind / /mnt && exec chroot /mnt unshare --user true";
        let mut chroot = Command::new("unshare");
        let why = refusal(chroot.args(["--mount", "sh", "-c", script])).unwrap();
        assert!(why.contains("unshare"), "{why}");
        assert_eq!(refusal(&mut Command::new("true")), None);
    }
}
