//! Wrappers of any queue: observers (capture, trace) and fault injection.

mod capture;
mod fault;
mod observe;

pub use capture::CaptureObserver;
pub use fault::{FAULT_LAYERS, FaultSpec, inject};
pub use observe::{FrameDirection, Observer, observe};
