//! Tests on a made-up machine, whose kernel binds drivers and makes interfaces as Linux does.

mod binding;
mod machine;
mod refusals;
mod setting;
