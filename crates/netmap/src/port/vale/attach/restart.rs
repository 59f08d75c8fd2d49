//! Saves and restores interfaces attached to switches.
//!
//! Frames that had arrived but were not given back may have been switched already, so they are not
//! switched again. The port counts each of their slots as a frame lost by a restart.

use std::sync::Arc;

use slipring_ring::RingView;
use slipring_switch::{SwitchDropReason, SwitchPortId};

use super::{AttachedNic, AttachmentOwner, NicAttachment, NicWorkers, PollingPlan, received_range};
use crate::port::adapter::Adapter;
use crate::port::binding::Binding;
use crate::port::persist::SavedPortIndex;
use crate::port::vale::bridge::{Bridge, BridgeAttachment};
use crate::port::vale::destination_ring::distance;
use crate::port::waker::Ticker;
use crate::types::lock::lock;
use crate::types::shape::TxRx;
use crate::types::state::{BridgeAttachmentState, NicAttachmentState};

impl NicAttachment {
    /// Returns the saved form for the successor process; `None` while the interface is being
    /// detached.
    pub(crate) fn state(&self, ports: &mut dyn SavedPortIndex) -> Option<NicAttachmentState> {
        let bound = self.attached.binding.state(ports);
        let AttachedNic { nic, host, owner, .. } = &*self.attached;
        let attachment = |attachment: &BridgeAttachment, name: &str| {
            attachment.bridge.attachment_state(attachment.id, name)
        };
        let host = match host {
            Some(host) => Some(attachment(host, &format!("{}^", owner.key.1))?),
            None => None,
        };
        let polling = match &*lock(&self.workers) {
            NicWorkers::Polling { plan, .. } => Some(plan.clone()),
            _ => None,
        };
        let polling = polling.map(|PollingPlan { workers }| {
            let numbers = workers.into_iter();
            numbers
                .map(|(cpu, rings)| [cpu, rings.start, rings.end].map(|one| one as u32))
                .collect()
        });
        Some(NicAttachmentState {
            key: owner.key.clone(),
            nic: attachment(nic, &owner.key.1)?,
            host,
            bound,
            polling,
        })
    }

    /// Restores an attachment of the previous process, with its recreated interface; `None` if the
    /// state is inconsistent.
    pub(crate) fn resume(
        state: &NicAttachmentState,
        owner: AttachmentOwner,
        nic: &Arc<dyn Adapter>,
        hub: &Arc<Bridge>,
        ticker: &Arc<Ticker>,
    ) -> Option<Self> {
        let binding = Binding::resume(&state.bound, nic.clone(), &Self::idle_waker(ticker))?;
        let host = usize::from(nic.shape().rings[TxRx::Rx as usize]);
        let lost = [0..host, host..usize::MAX].map(|side| {
            let rings = binding.rings[TxRx::Rx as usize].clone().filter(|i| side.contains(i));
            rings.filter_map(|i| nic.ring(TxRx::Rx, i)).map(discard_in_flight).sum::<u64>()
        });
        let seats = [Some(&state.nic), state.host.as_ref()];
        let mut seats = seats.into_iter().flatten().zip(lost);
        let attachment = Self::attach(owner, nic, binding, ticker, |name, member| {
            let (BridgeAttachmentState { id, settings, .. }, lost) =
                seats.next().ok_or(crate::Errno::INVAL)?;
            let config = settings.config(member.rings.len() as u32);
            let id = SwitchPortId(*id);
            let found = config.and_then(|config| hub.attach_at(name, member, id, config));
            hub.with_engine(|engine| engine.refuse(id, SwitchDropReason::Restart, lost));
            found.ok_or(crate::Errno::INVAL)
        });
        let attachment = attachment.ok()?;
        if let Some(polling) = &state.polling {
            let workers = polling.iter().map(|&[cpu, start, end]| {
                (cpu as usize, start as usize..(end as usize).min(attachment.rx_rings()))
            });
            attachment.poll(&PollingPlan { workers: workers.collect() }, ticker).ok()?;
        }
        Some(attachment)
    }
}

/// Gives back the slots with received frames, without switching them; returns their number.
fn discard_in_flight(view: &RingView) -> u64 {
    let (from, to) = received_range(view);
    view.advance_to(to);
    distance(from, to, view.num_slots()).into()
}
