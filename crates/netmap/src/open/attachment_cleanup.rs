//! Handles a vanished interface: detaches it from its switch and reports that it has vanished.

use std::sync::{Arc, Weak};

use crate::open::domain::Domain;
use crate::open::provider::{AdapterEvent, Provider};
use crate::port::vale::attach::{NicAttachment, NicVanishedHandler};
use crate::types::lock::lock;
use crate::types::port_name::PortKey;

/// Handles a vanished interface: detaches it from its switch in `domain` and notifies `provider`.
#[derive(Debug)]
pub(crate) struct AttachmentCleanup {
    domain: Weak<Domain>,
    provider: Arc<dyn Provider>,
}

impl AttachmentCleanup {
    pub(crate) fn new(domain: &Arc<Domain>, provider: &Arc<dyn Provider>) -> Arc<Self> {
        Arc::new(Self { domain: Arc::downgrade(domain), provider: provider.clone() })
    }
}

impl NicVanishedHandler for AttachmentCleanup {
    fn nic_vanished(&self, key: &PortKey, is_current: &dyn Fn(&NicAttachment) -> bool) {
        let Some(domain) = self.domain.upgrade() else { return };
        let mut names = lock(&domain.names);
        let attached = &mut names.switches.attached;
        let ours = attached.get(key).is_some_and(|one| is_current(one));
        let gone = if ours { attached.remove(key) } else { None };
        drop(names);
        if gone.is_some() {
            self.provider
                .notify(&AdapterEvent::InterfaceGone { uid: domain.uid(), port: key.1.clone() });
        }
        // Dropping the attachment waits for the end of its other workers, so it is dropped without
        // the lock.
        drop(gone);
    }
}
