//! Interfaces in switches as a ledger has them.
//!
//! What had arrived and was not given back may have been switched already, so it is not switched
//! again: the port counts it as lost by a restart.

use std::sync::Arc;

use slipring_ring::RingView;
use slipring_switch::{DropReason, PortId};

use super::{Attachment, Place, Plugged, Polling, Workers, arrived};
use crate::adapter::{Adapter, Dir};
use crate::binding::Binding;
use crate::domain::lock;
use crate::restart::state::{AttachState, BoundState, SeatState};
use crate::vale::hub::{Hub, Seat};
use crate::vale::outlet::distance;
use crate::waker::Ticker;

impl Attachment {
    /// How the interface is bound.
    pub(crate) fn binding(&self) -> &Binding {
        &self.plugged.binding
    }

    /// What of it the process that follows needs, but for how the interface is bound; `None` if it
    /// is being plugged out.
    pub(crate) fn state(&self, bound: BoundState) -> Option<AttachState> {
        let Plugged { nic, host, place, .. } = &*self.plugged;
        let seat = |seat: &Seat, name: &str| seat.hub.seat_state(seat.id, name);
        let host = match host {
            Some(host) => Some(seat(host, &format!("{}^", place.key.1))?),
            None => None,
        };
        let polling = match &*lock(&self.workers) {
            Workers::Polling { plan, .. } => Some(plan.clone()),
            _ => None,
        };
        let polling = polling.map(|Polling { workers }| {
            let numbers = workers.into_iter();
            numbers
                .map(|(cpu, rings)| [cpu, rings.start, rings.end].map(|one| one as u32))
                .collect()
        });
        Some(AttachState {
            key: place.key.clone(),
            nic: seat(nic, &place.key.1)?,
            host,
            bound,
            polling,
        })
    }

    /// One of a process that is no more, with the interface made again; `None` if it makes no sense.
    pub(crate) fn resume(
        state: &AttachState,
        place: Place,
        nic: &Arc<dyn Adapter>,
        hub: &Arc<Hub>,
        ticker: &Arc<Ticker>,
    ) -> Option<Self> {
        let binding = Binding::resume(&state.bound, nic.clone(), &Self::idle(ticker))?;
        let host = usize::from(nic.shape().rings[Dir::Rx as usize]);
        let lost = [0..host, host..usize::MAX].map(|side| {
            let rings = binding.rings[Dir::Rx as usize].clone().filter(|i| side.contains(i));
            rings.filter_map(|i| nic.ring(Dir::Rx, i)).map(give_up).sum::<u64>()
        });
        let seats = [Some(&state.nic), state.host.as_ref()];
        let mut seats = seats.into_iter().flatten().zip(lost);
        let attachment = Self::plug(place, nic, binding, ticker, |name, member| {
            let (SeatState { id, settings, .. }, lost) = seats.next().ok_or(crate::Errno::INVAL)?;
            let config = settings.config(member.outlets.len() as u32);
            let id = PortId(*id);
            let seat = config.and_then(|config| hub.join_at(name, member, id, config));
            hub.engine(|engine| engine.refuse(id, DropReason::Restart, lost));
            seat.ok_or(crate::Errno::INVAL)
        });
        let attachment = attachment.ok()?;
        if let Some(polling) = &state.polling {
            let workers = polling.iter().map(|&[cpu, start, end]| {
                (cpu as usize, start as usize..(end as usize).min(attachment.rx_rings()))
            });
            attachment.poll(&Polling { workers: workers.collect() }, ticker).ok()?;
        }
        Some(attachment)
    }
}

/// Gives back what has arrived; how many slots.
fn give_up(view: &RingView) -> u64 {
    let (from, to) = arrived(view);
    view.advance_to(to);
    distance(from, to, view.num_slots()).into()
}
