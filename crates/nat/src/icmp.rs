//! Errors of ICMP: they quote the packet that they are about, as the one who complains saw it.

use slipring_wire::checksum::Delta;

use crate::flow::End;
use crate::packet::{Load, Side, View};
use crate::rewrite::{self, be16, put16};

/// Most bytes of a quoted packet that a translation changes: its header, and the checksum of TCP.
const CHANGED: usize = 60 + 18;

/// The packet that an error quotes.
pub(crate) struct Quoted {
    at: usize,
    pub(crate) view: View,
    pub(crate) load: Load,
}

/// Reads the packet quoted at `at`; `None` where nobody could tell whose it was.
pub(crate) fn quoted(packet: &[u8], at: usize) -> Option<Quoted> {
    let inner = packet.get(at..)?;
    let view = View::read(inner).filter(|view| view.part != crate::packet::Part::Later)?;
    let load = view.load(inner)?;
    let known = !matches!(load, Load::Error(_) | Load::Message);
    known.then_some(Quoted { at, view, load })
}

impl Quoted {
    /// Gives a side of the quoted packet another end, and brings the checksum of the error, which
    /// is behind the header of `outer`, up to date.
    pub(crate) fn set_end(&self, packet: &mut [u8], outer: &View, side: Side, end: End) {
        let Some(inner) = packet.get_mut(self.at..) else { return };
        let changed = inner.len().min(CHANGED);
        let mut before = [0; CHANGED];
        before[..changed].copy_from_slice(&inner[..changed]);
        rewrite::set_end(inner, &self.view, side, end);
        let delta = Delta::new().bytes(&before[..changed], &inner[..changed]);
        if let Some(sum) = be16(packet, outer.l4 + 2) {
            put16(packet, outer.l4 + 2, delta.apply(sum));
        }
    }
}
