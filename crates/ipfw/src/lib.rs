//! ipfw's rule language on Ethernet frames between ports.
//!
//! ```text
//!   text --Command--> Firewall (rules, tables, states) <--frame, time, seed-- caller
//!                        |
//!                        +--> Verdict, counters, log lines, frames to send
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`text`] | commands as text: reading them, and writing rules as `ipfw list` does |
//! | [`rule`] | what a rule is |
//! | [`packet`] | what rules may ask of a frame |
//! | [`table`] | tables that rules look up |
//! | [`state`] | what `keep-state` and `limit` remember |
//! | [`run`] | the engine: commands and packets in, verdicts out |
//!
//! # What ipfw's words mean between two ports
//! - **in, out, recv, xmit, via.** A frame is checked once as it comes in ([`run::Pass::In`]: `in`,
//!   and `via` is the receiving port) and, if the caller wants, once more as it goes out
//!   ([`run::Pass::Out`]: `out`, `recv` still known, `xmit` known, `via` is the sending port), as a
//!   FreeBSD router checks it. Each check counts. Tags and marks go along; the list starts over.
//!   `any` means any port that is known.
//! - **me** is the list of addresses that the caller configured, empty at first; `recv 192.0.2.1` is
//!   the port that has that address.
//! - **Layer 2.** Every frame is one, so `layer2` always holds, MAC addresses can always be asked
//!   for, and every action acts. (FreeBSD's manual lets only some act on layer 2 and takes all
//!   others for `allow`, which would make `reset` a hole.) VLAN tags, one or two, are looked
//!   through; `vlan` and `inner-vlan` ask for their ids, which ipfw cannot.
//! - **Bytes.** Of IPv4 and IPv6 the IP packet counts, of all else the whole frame.
//! - **Malformed frames** are dropped and counted by cause, whatever the rules say: see
//!   [`packet::Malformed`]. Among them is a TCP fragment at offset 8 bytes. Unknown protocols and
//!   IPv6 next headers meet the rules like any other.
//! - **Frames without IP** have no flow: `keep-state` on ARP just runs its action.
//! - **reject, unreach, reset, abort** answer on the port the frame came by, from the address that
//!   it was for, as a bridge without an address must.
//! - **fwd** names a next hop, or with `port:NAME` a port; the caller sends the frame there.
//! - **reass** shows later rules the whole packet (with `one_pass` off, as ever); the fragments then
//!   go on as they came, all with the verdict of the whole.
//! - **nat, nptv6** translate in the check itself. In a pass in the destination is ours, in a pass
//!   out the source, so `nat` rules want both passes, with `via` the port outside. What is not
//!   IPv4 goes on behind a `nat`, what has neither prefix behind an `nptv6`. MAC addresses stay:
//!   between hosts and their router, the router must know the way to the address of the instance.
//!   `if PORT` is the first address that `me` has at that port.
//! - **States** are looked up once for each packet and name; behind a state whose rule does not end
//!   the search comes the rule after that one. FreeBSD forgets all names but the last.
//! - **A call** deeper than 16 drops the packet, and so does the 1025th call of a check.
//!
//! Not for: clocks, threads, ports, files, shaping packets (the verdict names the pipe).
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod packet;
pub mod rule;
pub mod run;
pub mod state;
pub mod table;
pub mod text;
