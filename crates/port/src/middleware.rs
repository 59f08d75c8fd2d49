//! What any queue can be wrapped in: observers (capture, trace) and fault injection.

mod fault;
mod observe;

pub use fault::{Faults, inject};
pub use observe::{Direction, Observer, observe};
