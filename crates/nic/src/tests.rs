//! Tests on a simulated machine, whose kernel binds drivers and creates interfaces like Linux.

mod binding;
mod ending;
mod finding;
mod machine;
mod refusals;
mod setting;
mod taking;
