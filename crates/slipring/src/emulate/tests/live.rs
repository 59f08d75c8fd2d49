//! Settings changed while they are in force.
