//! All unsafe code: mappings, the requests of VFIO, and barriers.
#![allow(unsafe_code)]

pub mod barrier;
pub(crate) mod mapping;
pub(crate) mod vfio;
