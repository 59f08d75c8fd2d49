use super::table::{FlowDirection, FlowState, StateUpdate};

const NS_PER_SEC: u64 = 1_000_000_000;

/// Lifetimes of states in seconds, as set by the sysctls `dyn_*_lifetime`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateLifetimes {
    /// TCP, established: both sides have sent SYN and acknowledge data.
    pub ack: u32,
    /// TCP, while the connection is being opened.
    pub syn: u32,
    /// TCP, closed by both sides; less than 5 seconds.
    pub fin: u32,
    /// TCP, reset or never opened; less than 5 seconds.
    pub rst: u32,
    /// UDP and UDP-Lite.
    pub udp: u32,
    /// Everything else.
    pub short: u32,
}

impl Default for StateLifetimes {
    fn default() -> Self {
        Self { ack: 300, syn: 20, fin: 1, rst: 1, udp: 10, short: 5 }
    }
}

const FIN: u16 = 0x01;
const SYN: u16 = 0x02;
const RST: u16 = 0x04;
const BOTH_SYN: u16 = SYN | SYN << 8;
const BOTH_FIN: u16 = FIN | FIN << 8;
/// Bits for the sides that have sent an up-to-date acknowledgement since the lifetime was last
/// renewed.
const FORWARD_ACK: u8 = 1;
const BOTH_ACK: u8 = 3;

impl FlowState {
    /// Updates the TCP flags and the lifetime for a packet of the flow.
    pub(super) fn update(
        &mut self,
        update: &StateUpdate,
        direction: FlowDirection,
        now: u64,
        life: &StateLifetimes,
    ) {
        let seconds = match self.flow.proto {
            6 => self.update_tcp(update, direction, life),
            17 | 136 => Some(life.udp),
            _ => Some(life.short),
        };
        if let Some(seconds) = seconds {
            self.expires_ns = now + u64::from(seconds) * NS_PER_SEC;
        }
    }

    /// Returns the new lifetime in seconds; `None` if the segment does not renew it.
    fn update_tcp(
        &mut self,
        update: &StateUpdate,
        direction: FlowDirection,
        life: &StateLifetimes,
    ) -> Option<u32> {
        let flags = u16::from(update.tcp_flags) & (FIN | SYN | RST);
        self.tcp |= if direction == FlowDirection::Forward { flags } else { flags << 8 };
        match self.tcp {
            SYN => Some(life.syn),
            tcp if tcp & (RST | RST << 8) != 0 => Some(life.rst),
            tcp if tcp & BOTH_SYN != BOTH_SYN => Some(life.rst),
            tcp if tcp & BOTH_FIN == BOTH_FIN => Some(life.fin),
            _ => self.progress(update, direction).then_some(life.ack),
        }
    }

    /// Returns whether both sides have now sent an up-to-date acknowledgement since the lifetime
    /// was last renewed, which shows that the connection is alive. An acknowledgement is up to date
    /// if its number is not below the last number of its side; an answer to a keepalive repeats the
    /// last number. Old acknowledgements, or those of one side alone, do not renew the lifetime.
    fn progress(&mut self, update: &StateUpdate, direction: FlowDirection) -> bool {
        let (known, bit) = match direction {
            FlowDirection::Forward => (&mut self.ack_forward, FORWARD_ACK),
            FlowDirection::Reverse => (&mut self.ack_reverse, FORWARD_ACK << 1),
        };
        let is_old = *known != 0 && (update.tcp_ack.wrapping_sub(*known) as i32) < 0;
        if update.tcp_flags & 0x10 == 0 || is_old {
            return false;
        }
        *known = update.tcp_ack;
        self.acked |= bit;
        let both = self.acked == BOTH_ACK;
        if both {
            self.acked = 0;
        }
        both
    }

    /// Returns whether the flow is a TCP connection that both sides have opened and neither has
    /// closed, so that it gets keepalives.
    #[must_use]
    pub fn is_open_tcp(&self) -> bool {
        self.flow.proto == 6
            && self.tcp & BOTH_SYN == BOTH_SYN
            && self.tcp & (BOTH_FIN | RST | RST << 8) == 0
    }
}
