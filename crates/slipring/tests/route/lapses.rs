//! Repeats checks that fail because the kernel has forwarded packets in place of the router.
//!
//! If the router's threads do not run for 100 ms, as on a busy machine, its BPF programs leave all
//! packets to the kernel. This is correct behaviour, and no packet is lost. But the kernel may send
//! packets in another order, chooses other next hops, has its own counters, and applies no rules,
//! so a check may fail without a defect. The BPF programs count these packets. If there were any, a
//! failed check is repeated a few times; a real defect fails each time.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind, set_hook, take_hook};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;

use serde_json::Value;

use crate::topology::SLIPRING;

/// Maximum number of runs of a check.
const ATTEMPTS: u32 = 4;

thread_local! {
    /// The run directory of the router that this thread's check has started.
    static ROUTER: RefCell<Option<PathBuf>> = const { RefCell::new(None) };
    /// Whether the kernel had forwarded when the check failed.
    static HAS_LAPSED: Cell<bool> = const { Cell::new(false) };
}

/// Records the running router of this thread's check.
pub(crate) fn note_router(run_dir: &Path) {
    ROUTER.set(Some(run_dir.to_owned()));
}

/// From now on, a failed check is not repeated, because the check itself stops the router's
/// threads.
pub(crate) fn are_expected() {
    ROUTER.set(None);
}

/// Runs a check until it passes, or until it fails although the router has forwarded all packets,
/// but at most [`ATTEMPTS`] times.
pub(crate) fn repeated(check: impl Fn()) {
    static HOOK: Once = Once::new();
    HOOK.call_once(ask_at_each_panic);
    for _ in 1..ATTEMPTS {
        HAS_LAPSED.set(false);
        ROUTER.set(None);
        match catch_unwind(AssertUnwindSafe(&check)) {
            Err(_) if HAS_LAPSED.get() => println!("the kernel has forwarded meanwhile: once more"),
            Err(panic) => resume_unwind(panic),
            Ok(()) => return,
        }
    }
    check();
}

/// Installs a hook: a thread that panics asks its router whether the kernel has forwarded, before
/// the router ends.
fn ask_at_each_panic() {
    let report = take_hook();
    set_hook(Box::new(move |panic| {
        report(panic);
        let router = ROUTER.take();
        HAS_LAPSED.set(router.and_then(|run_dir| packets_without_heartbeat(&run_dir)) > Some(0));
    }));
}

/// Returns how many packets the BPF programs have left to the kernel because the router's threads
/// gave no sign of life (heartbeat); `None` if the router does not answer.
fn packets_without_heartbeat(run_dir: &Path) -> Option<u64> {
    let mut command = Command::new(SLIPRING);
    command.args(["route", "ctl", "interface", "--json"]).env("SLIPRING_RUN", run_dir);
    let answer: Value = serde_json::from_slice(&command.output().ok()?.stdout).ok()?;
    let interfaces = answer["answer"]["interfaces"].as_array()?;
    Some(interfaces.iter().filter_map(|of| of["passed"]["no-heartbeat"].as_u64()).sum())
}

#[test]
fn only_a_check_during_which_the_kernel_has_forwarded_is_repeated() {
    let runs = |has_lapsed| {
        let count = Cell::new(0);
        let failed = catch_unwind(AssertUnwindSafe(|| {
            repeated(|| {
                count.set(count.get() + 1);
                // In a real failure, the panic hook sets this. `resume_unwind` does not run the
                // hook, so no report is printed.
                HAS_LAPSED.set(has_lapsed);
                resume_unwind(Box::new("a failed check"));
            });
        }));
        assert!(failed.is_err());
        count.get()
    };
    assert_eq!((runs(false), runs(true)), (1, ATTEMPTS));
}
