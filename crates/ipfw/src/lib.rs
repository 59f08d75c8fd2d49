//! ipfw's rule language on Ethernet frames between ports.
//!
//! ```text
//!   text --IpfwCommand--> Firewall (rules, tables, states) <--frame, time, seed, secret-- caller
//!                            |
//!                            +--> RuleVerdict, counters, log lines, frames to send
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`text`] | commands as text: parsing them, and printing rules as `ipfw list` does |
//! | [`rule`] | the parts of a rule |
//! | [`packet`] | the header fields that rules test |
//! | [`table`] | tables in which rules look up addresses and other keys |
//! | [`state`] | the flow states of `keep-state` and `limit` |
//! | [`run`] | the engine: commands and packets in, verdicts out |
//!
//! # What ipfw's words mean between two ports
//! - **in, out, recv, xmit, via.** A frame is checked once when it comes in
//!   ([`run::CheckPass::In`]: `in`, and `via` is the receiving port). If the caller wants, it is
//!   checked again when it goes out ([`run::CheckPass::Out`]: `out`, `recv` still known, `xmit`
//!   known, `via` is the sending port), as on a FreeBSD router. Each check counts the packet. Tags
//!   and marks are kept between the checks, but the second check begins at the first rule again.
//!   `any` means any port that is known.
//! - **me** is the list of addresses that the caller configured, empty at first; `recv 192.0.2.1`
//!   is the port that has that address.
//! - **Layer 2.** Every frame is a layer 2 frame, so `layer2` always holds, MAC addresses can
//!   always be tested, and every action takes effect. (FreeBSD's manual lets only some actions act
//!   on layer 2 and treats all others as `allow`, which would make `reset` a hole.) One or two VLAN
//!   tags are skipped; `vlan` and `inner-vlan` test their ids, which FreeBSD's ipfw cannot do.
//! - **Bytes.** Counters add the bytes of the IP packet that are in the frame for IPv4 and IPv6,
//!   and the length of the whole frame for other frames.
//! - **Malformed frames** are dropped and counted by cause, independently of the rules: see
//!   [`packet::MalformedReason`]. This includes an IPv4 TCP fragment at offset 8 bytes. Unknown
//!   protocols and IPv6 next headers are matched like known ones.
//! - **Frames without IP** have no flow: `keep-state` on ARP only runs its action.
//! - **reject, unreach, reset, abort** answer on the port where the frame came in. The source of
//!   the answer is the destination address of the frame, as a bridge without an address must do. A
//!   router can send the ICMP errors itself: see [`run::CheckOutputs::leaves_errors`].
//! - **fwd** names a next hop or, with `port:NAME`, a port; the caller sends the frame there.
//! - **reass** shows later rules the whole packet; with `one_pass`, it accepts the packet. The
//!   fragments then leave as fragments, all with the verdict of the packet and the changes that
//!   rules made to it.
//! - **nat, nptv6** translate within the check. `nat` translates the destination on an `in` pass
//!   and the source on an `out` pass, so `nat` rules need both passes, with `via` the outside port.
//!   Frames other than IPv4 continue after a `nat`, packets with neither prefix after an `nptv6`.
//!   MAC addresses are kept, except that a packet whose destination a `nat` translates gets the MAC
//!   address of the inside host, if it is known. Between hosts and their router, the router must
//!   have a route to the address of the instance. `if PORT` is the first IPv4 address that `me` has
//!   at that port.
//! - **States** are looked up once per name in a check, and again after a translation or reassembly
//!   has changed the flow. If the action of a state's rule does not end the search, the search
//!   continues at the rule after the state's rule. FreeBSD remembers only the last name that was
//!   looked up.
//! - **Calls.** A packet is dropped if its calls are nested more than 16 deep, and at the 1025th
//!   call of a check.
//!
//! Not for: clocks, threads, ports, files, shaping packets (the verdict names the pipe).
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod keyed;
pub mod packet;
pub mod rule;
pub mod run;
pub mod state;
pub mod table;
pub mod text;
