//! The slipring binary.
fn main() {}
