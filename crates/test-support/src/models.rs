//! Runs models with loom, which explores all interleavings with a limited number of preemptions,
//! and for each load all values stored before that the memory model allows. No load returns a value
//! that is stored later.
//!
//! A model is a closure that starts threads with `loom::thread`, shares atomics of `loom::sync`,
//! and asserts. The code under test accesses its words through a trait. So it runs with loom's
//! atomics here, and with mapped memory in the product. A model that cannot fail proves nothing. So
//! each model also runs with one ordering weakened or one step left out (a mutant), and must fail
//! then.
//!
//! ```
//! use loom::sync::Arc;
//! use loom::sync::atomic::AtomicU32;
//! use loom::sync::atomic::Ordering::{self, Acquire, Relaxed, Release};
//! use slipring_test_support::models::{explore, fails};
//!
//! fn publish(order: Ordering) -> impl Fn() + Send + Sync + 'static {
//!     move || {
//!         let words = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
//!         let publisher = loom::thread::spawn({
//!             let words = words.clone();
//!             move || {
//!                 words[0].store(1, Relaxed);
//!                 words[1].store(1, order);
//!             }
//!         });
//!         if words[1].load(Acquire) == 1 {
//!             assert_eq!(words[0].load(Relaxed), 1);
//!         }
//!         publisher.join().unwrap();
//!     }
//! }
//!
//! explore(publish(Release));
//! assert!(fails(publish(Relaxed)), "a store that releases nothing");
//! ```
//!
//! Not for orderings of `SeqCst` accesses, which loom treats as `AcqRel`. Use fences instead.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Maximum number of times that loom interrupts a thread in one run. Most mistakes need one or two
/// interruptions. Each further one multiplies the run time.
pub const PREEMPTIONS: usize = 3;

/// Runs `model` with all schedules that have at most [`PREEMPTIONS`] interruptions.
///
/// # Panics
/// If `model` fails in one of the schedules.
pub fn explore(model: impl Fn() + Sync + Send + 'static) {
    explore_within(PREEMPTIONS, model);
}

/// Like [`explore`], but with this maximum number of interruptions.
///
/// # Panics
/// If `model` fails in one of the schedules.
pub fn explore_within(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// Returns whether `model` fails in a schedule with at most [`PREEMPTIONS`] interruptions.
#[must_use]
pub fn fails(model: impl Fn() + Sync + Send + 'static) -> bool {
    fails_within(PREEMPTIONS, model)
}

/// Like [`fails`], but with this maximum number of interruptions.
#[must_use]
pub fn fails_within(preemptions: usize, model: impl Fn() + Sync + Send + 'static) -> bool {
    catch_unwind(AssertUnwindSafe(|| explore_within(preemptions, model))).is_err()
}
