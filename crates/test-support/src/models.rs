//! Runs models with loom, which explores every interleaving and every value that the memory model
//! allows.
//!
//! A model is a closure that starts threads by `loom::thread`, shares atomics of `loom::sync`, and
//! asserts. The code under test accesses its words through a trait, so that it runs with loom's
//! atomics here and with mapped memory in the product. A model that cannot fail proves nothing: so
//! each model also runs with one ordering weakened or one step left out (a mutant), and must then
//! fail.
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
//! Not for orderings of `SeqCst` accesses, which loom treats as `AcqRel`: use fences.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Maximum number of times that loom interrupts a thread in one run. Most mistakes need one or two
/// interruptions; each further one multiplies the run time.
pub const PREEMPTIONS: usize = 3;

/// Runs `model` over all schedules within [`PREEMPTIONS`].
///
/// # Panics
/// If `model` fails in one of the schedules.
pub fn explore(model: impl Fn() + Sync + Send + 'static) {
    explore_within(PREEMPTIONS, model);
}

/// Like [`explore`], within this number of preemptions.
///
/// # Panics
/// If `model` fails in one of the schedules.
pub fn explore_within(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// Whether there is a schedule within [`PREEMPTIONS`] in which `model` fails.
#[must_use]
pub fn fails(model: impl Fn() + Sync + Send + 'static) -> bool {
    fails_within(PREEMPTIONS, model)
}

/// Like [`fails`], within this number of preemptions.
#[must_use]
pub fn fails_within(preemptions: usize, model: impl Fn() + Sync + Send + 'static) -> bool {
    catch_unwind(AssertUnwindSafe(|| explore_within(preemptions, model))).is_err()
}
