//! Second stage of forwarding: ingress policers. If there are none, the stage costs one test per
//! batch.

mod bucket;
mod policer;

pub(crate) use policer::Policers;
pub use policer::PortPolicer;
