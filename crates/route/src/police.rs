//! Second stage: ingress policers. Without any they cost one test for each batch.

mod policer;

pub(crate) use policer::Policers;
