//! Asks the rules at each bind.

use std::sync::Arc;

use slipring_netmap::{Adapter, Errno, LeftPort, News, PortKind, Provider, Wanted};
use slipring_nics::{Access, Nics};

use crate::journal::Journal;
use crate::rules::{Port, Rules, Who};

/// The machine's interfaces behind the rules.
#[derive(Debug)]
pub(crate) struct Guard {
    rules: Arc<Rules>,
    journal: Arc<Journal>,
    nics: Nics,
}

impl Guard {
    pub(crate) fn new(rules: Arc<Rules>, journal: Arc<Journal>) -> Self {
        Self { rules, journal, nics: Nics::new(Access::default()) }
    }
}

fn who<'w>(wanted: &Wanted<'w>) -> Who<'w> {
    Who { uid: wanted.domain.uid(), gids: &wanted.opener.gids }
}

impl Provider for Guard {
    fn find(&self, wanted: &Wanted<'_>) -> Result<Arc<dyn Adapter>, Errno> {
        let port = Port { name: wanted.name, kind: PortKind::Interface };
        self.nics.find_as(wanted, self.rules.access(who(wanted), port))
    }

    fn admit(&self, wanted: &Wanted<'_>, kind: PortKind) -> Result<(), Errno> {
        let port = Port { name: wanted.name, kind };
        match self.rules.admit(who(wanted), port) {
            // What is refused is an interface only if there is one of this name.
            Err(refused) if port.kind == PortKind::Interface => match self.find(wanted) {
                Err(Errno::PERM) => Err(refused),
                _ => Ok(()),
            },
            answer => answer,
        }
    }

    fn resume(&self, left: &LeftPort<'_>) -> Option<Arc<dyn Adapter>> {
        self.nics.resume(left)
    }

    fn tell(&self, news: &News) {
        self.journal.note(news);
    }
}
