//! Tests of programs that were written for netmap, on slipring's device. They need root, /dev/fuse
//! and a C compiler.
#![allow(clippy::unwrap_used, missing_docs)]

mod abi;
mod builds;
mod daq;
mod go;
mod installed;
mod layout;
mod library;
mod names;
mod netmap_rs;
mod pcap;
mod queues;
mod sources;
mod squatters;
mod stage;
