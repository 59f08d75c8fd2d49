//! Checks the access rules each time a port is bound.

use std::sync::Arc;

use slipring_netmap::{
    Adapter, AdapterEvent, AdapterRequest, Errno, PortKind, Provider, RecoveredPort,
};
use slipring_nic_provider::{NicAccess, Nics};

use crate::journal::Journal;
use crate::rules::{ActiveAccessRules, PortAccess, Requester};

/// Provides the interfaces of the machine, as far as the access rules allow it.
#[derive(Debug)]
pub(crate) struct GuardedNics {
    rules: Arc<ActiveAccessRules>,
    journal: Arc<Journal>,
    nics: Nics,
}

impl GuardedNics {
    pub(crate) fn new(rules: Arc<ActiveAccessRules>, journal: Arc<Journal>) -> Self {
        Self { rules, journal, nics: Nics::new(NicAccess::default()) }
    }
}

fn requester<'w>(wanted: &AdapterRequest<'w>) -> Requester<'w> {
    Requester { uid: wanted.domain.uid(), gids: &wanted.opener.gids }
}

impl Provider for GuardedNics {
    fn find(&self, wanted: &AdapterRequest<'_>) -> Result<Arc<dyn Adapter>, Errno> {
        let port = PortAccess { name: wanted.name, kind: PortKind::Interface };
        self.nics.find_with_access(wanted, self.rules.access(requester(wanted), port))
    }

    fn admit(&self, wanted: &AdapterRequest<'_>, kind: PortKind) -> Result<(), Errno> {
        let port = PortAccess { name: wanted.name, kind };
        match self.rules.admit(requester(wanted), port) {
            // The rules refuse this port. If an interface with this name exists, `find` returns
            // EPERM, and the bind is refused. Otherwise the bind continues.
            Err(refused) if port.kind == PortKind::Interface => match self.find(wanted) {
                Err(Errno::PERM) => Err(refused),
                _ => Ok(()),
            },
            answer => answer,
        }
    }

    fn resume(&self, left: &RecoveredPort<'_>) -> Option<Arc<dyn Adapter>> {
        self.nics.resume(left)
    }

    fn notify(&self, news: &AdapterEvent) {
        self.journal.record(news);
    }
}
