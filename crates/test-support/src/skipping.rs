//! Checks whether a test can run on this machine, and reports tests that are skipped.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::closing;
use crate::sandbox::NOBODY;

/// Prints `skipped: ` and the reason, which is formatted as by `println!`. It does not return from
/// the test: that is left to the caller.
///
/// `scripts/test.sh` counts such tests separately from those that have passed. With
/// `SLIPRING_NO_SKIP=1`, it fails if a reason does not match a line of `.ci/may-skip`.
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

/// Returns whether a program is installed. If not, prints that the test is skipped.
#[must_use]
pub fn installed(program: &str) -> bool {
    let dirs = ["/usr/bin", "/usr/sbin", "/bin", "/sbin", "/usr/local/bin"];
    let found = dirs.iter().any(|dir| Path::new(dir).join(program).exists());
    if !found {
        skip!("{program} is not installed");
    }
    found
}

/// Returns whether the tests run as root. If not, prints that the test is skipped, and what needs
/// root.
#[must_use]
pub fn is_root(what_for: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skip!("{what_for} needs root");
    }
    is_root
}

/// Returns whether ordinary users may create user namespaces on this machine. If not, prints that
/// the test is skipped, and the kernel's reason. For example, the kernel forbids them in a chroot.
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

/// Returns why a command does not work; `None` if it works.
fn refusal(command: &mut Command) -> Option<String> {
    match closing::output(command) {
        Ok(done) if done.status.success() => None,
        Ok(done) => Some(String::from_utf8_lossy(&done.stderr).trim_end().to_owned()),
        Err(error) => Some(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel does not create user namespaces for a process in a chroot.
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
