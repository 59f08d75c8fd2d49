//! Second stage of forwarding: ingress policers. If there are none, the stage costs one test per
//! batch.

mod policer;

pub(crate) use policer::Policers;
