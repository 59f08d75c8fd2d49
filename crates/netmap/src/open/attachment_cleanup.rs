//! Handles a vanished interface: detaches it from its switch, saves that, and reports it.

use std::sync::{Arc, Weak};
use std::thread;

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
        let Some(gone) = gone else { return };
        let (provider, port, uid) = (self.provider.clone(), key.1.clone(), domain.uid());
        let finish = move || {
            drop(gone);
            domain.commit();
            provider.notify(&AdapterEvent::InterfaceGone { uid, port });
        };
        // In a separate thread, because the caller is a worker of the attachment and cannot wait
        // for its own end: dropping the attachment waits for its workers, and a commit waits for
        // changes, which may wait for the worker. If no thread can be created, the attachment is
        // dropped here without waiting for this worker, and the next commit saves that.
        if thread::Builder::new().name("vale-cleanup".to_owned()).spawn(finish).is_err() {
            let port = key.1.clone();
            self.provider.notify(&AdapterEvent::InterfaceGone { uid, port });
        }
    }
}
