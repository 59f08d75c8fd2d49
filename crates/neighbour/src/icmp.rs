//! ICMP and ICMPv6: errors about packets that cannot be forwarded, and answers to pings.
//!
//! ```text
//!   frame -> OffendingPacket::parse -> may_answer -> IcmpLimiter::allows -> error -> IP packet
//!            None: not IP, damaged     Err: silence   Err: too many
//! ```
//! The resulting packets start with the IP header. The caller must add the Ethernet header, and any
//! VLAN tags that the link requires.

pub mod echo;
mod error;
mod limiter;
mod offending;

pub use error::{IcmpMessage, IcmpProblem, QuoteLength};
pub use limiter::{IcmpLimit, IcmpLimiter, IcmpLimits};
pub use offending::{IcmpSilence, OffendingPacket};
