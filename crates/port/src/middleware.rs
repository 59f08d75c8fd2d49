//! What any queue can be wrapped in: observers (capture, trace) and fault injection.

mod capture;
mod fault;
mod observe;

pub use capture::Capture;
pub use fault::{Faults, LAYERS, inject};
pub use observe::{Direction, Observer, observe};
