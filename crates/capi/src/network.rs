//! Emulated links: the engine of `slipring-link` with a store for its frames. The caller provides
//! the clock.

#[cfg(feature = "links")]
mod engine;
#[cfg(not(feature = "links"))]
mod left_out;

#[cfg(feature = "links")]
pub(crate) use engine::*;
#[cfg(not(feature = "links"))]
pub(crate) use left_out::*;

#[cfg(feature = "links")]
pub use engine::NetworkHandle;
#[cfg(not(feature = "links"))]
pub use left_out::NetworkHandle;
