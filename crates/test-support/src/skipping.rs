//! Tests that cannot run on this machine.

use std::path::Path;

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
