//! Why the device cannot be served.

use std::io;

/// Why the device cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FuseError {
    /// The kernel does not support FUSE passthrough.
    #[error("the kernel's FUSE has no passthrough; it came with Linux 6.9")]
    NoPassthrough,
    /// io_uring was requested, but the kernel does not support it for FUSE.
    #[error("the kernel's FUSE has no io_uring; it came with Linux 6.14")]
    NoUring,
    /// A step of starting was not permitted, or has failed.
    #[error("cannot {step}")]
    Step {
        /// The step that failed.
        step: &'static str,
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
}

impl FuseError {
    pub(crate) fn step(step: &'static str) -> impl Fn(rustix::io::Errno) -> Self {
        move |error| Self::Step { step, source: error.into() }
    }
}

/// Returns a function that converts an I/O error to the error of `step`.
pub(crate) fn step_error(step: &'static str) -> impl Fn(io::Error) -> FuseError {
    move |source| FuseError::Step { step, source }
}
