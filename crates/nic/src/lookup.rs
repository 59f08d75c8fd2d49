//! Finds cards by the words of the command line: interfaces, PCI addresses, and the former names of
//! taken cards, including the cards that root has taken.
//!
//! ```text
//!   own run directory     $XDG_RUNTIME_DIR/slipring of a user, /run/slipring of root
//!   root's                /run/slipring: only root can take a card, and all users can read its state
//! ```

use std::collections::BTreeSet;

use slipring_cli::codes::SR0309;
use slipring_cli::{Diagnostic, Failure};
use slipring_drivers::TakenPeriod;

use crate::alias;
use crate::checks;
use crate::host::NicHost;
use crate::pci_address::PciAddress;
use crate::refusals::{ambiguous, failed, left_over, no_card, not_there};
use crate::state::{SavedNic, StateDir, boot_id};
use crate::sysfs::{self, NamedDevice, PciNic, device_dir};

/// The run directory of root, below the root directory.
const ROOTS_RUN_DIR: &str = "run/slipring";

/// The cards that were taken, by this command's run directory and by root's.
pub(crate) struct TakenCards<'a> {
    host: &'a dyn NicHost,
    own: &'a StateDir,
    roots: Option<StateDir>,
}

impl<'a> TakenCards<'a> {
    pub(crate) fn new(host: &'a dyn NicHost, own: &'a StateDir) -> Self {
        let roots = StateDir::below(&host.root().join(ROOTS_RUN_DIR));
        let roots = (!roots.is_same(own) && roots.is_trusted()).then_some(roots);
        Self { host, own, roots }
    }

    /// Returns this command's directory of states.
    pub(crate) fn own(&self) -> &StateDir {
        self.own
    }

    /// Returns root's directory of states; `None` if it is also this command's directory, or not
    /// trusted.
    pub(crate) fn roots(&self) -> Option<&StateDir> {
        self.roots.as_ref()
    }

    /// Returns the period for which settings of a card are saved now.
    pub(crate) fn period(&self, bdf: &str) -> TakenPeriod {
        let dirs: Vec<_> = [Some(self.own), self.roots()].into_iter().flatten().collect();
        let dirs: Vec<_> = dirs.into_iter().map(StateDir::dir).collect();
        TakenPeriod::find(&dirs, bdf, &boot_id(self.host.root()))
    }

    /// Returns the saved state of a card, from this command's directory or from root's.
    pub(crate) fn saved(&self, bdf: &str) -> std::io::Result<Option<SavedNic>> {
        match (self.own.read(bdf)?, self.roots()) {
            (None, Some(roots)) => roots.read(bdf),
            (own, _) => Ok(own),
        }
    }

    /// Returns the saved states in root's directory. Those that cannot be read are left out,
    /// because only a command of root can mend them.
    fn of_root(&self) -> Vec<SavedNic> {
        self.roots().and_then(|state| state.all(self.host).ok()).unwrap_or_default()
    }

    /// Returns every saved state. If both directories have one of a card, returns that of this
    /// command's directory.
    pub(crate) fn all(&self) -> std::io::Result<Vec<SavedNic>> {
        let mut all = self.own.all(self.host)?;
        let more = self.of_root().into_iter();
        let more: Vec<_> =
            more.filter(|saved| all.iter().all(|own| own.bdf != saved.bdf)).collect();
        all.extend(more);
        Ok(all)
    }

    /// Returns the PCI address of the card that a word means: by its PCI address, by its interface,
    /// by the interface that it had before it was taken, or by its TAP device. `None` if the word
    /// means no PCI device.
    ///
    /// # Errors
    /// If the word means more than one card, or the saved states cannot be read.
    pub(crate) fn address_of(&self, name: &str) -> Result<Option<String>, Failure> {
        let saved = self.all().map_err(|error| failed("read the saved state", self.own, &error))?;
        let root = self.host.root();
        if let Some(bdf) = PciAddress::parse(name).map(|address| address.to_string()) {
            let is_known = saved.iter().any(|saved| saved.bdf == bdf) || self.own.has(&bdf);
            if is_known || device_dir(root, &bdf).exists() {
                return Ok(Some(bdf));
            }
        }
        let before = saved.into_iter().filter(|saved| saved.display_name() == name);
        let mut meant: BTreeSet<_> = before.map(|saved| saved.bdf).collect();
        meant.extend(alias::card_of(&self.host.links().unwrap_or_default(), name));
        if let NamedDevice::Pci(nic) = sysfs::find(root, name) {
            meant.insert(nic.bdf);
        }
        match meant.len() {
            0 | 1 => Ok(meant.pop_first()),
            _ => Err(ambiguous(name, &meant).into()),
        }
    }

    /// Returns whether there is a state of a card. In this command's directory, a state that cannot
    /// be read counts, too.
    fn is_kept(&self, bdf: &str) -> bool {
        self.own.has(bdf) || self.of_root().iter().any(|saved| saved.bdf == bdf)
    }

    /// Finds a card by [`Self::address_of`].
    pub(crate) fn find(&self, name: &str) -> Result<PciNic, Failure> {
        let address = self.address_of(name)?;
        let device = sysfs::find(self.host.root(), address.as_deref().unwrap_or(name));
        match (address, device) {
            (Some(bdf), NamedDevice::Unknown) => match self.is_kept(&bdf) {
                true => Err(not_there(name, &bdf).into()),
                false => Err(left_over(name, &bdf).into()),
            },
            (_, device) => match (checks::no_card(name, &device), device) {
                (None, NamedDevice::Pci(nic)) => Ok(nic),
                (refusal, _) => Err(no_card(name, refusal).into()),
            },
        }
    }

    /// Refuses a command about cards whose saved states are in root's directory, and not in this
    /// command's. `names` are the cards; `None` stands for all.
    ///
    /// # Errors
    /// A diagnostic with the command that root must run. If states cannot be read, nothing is
    /// refused here: the command itself reports the error.
    pub(crate) fn refuse_roots(&self, verb: &str, names: Option<&[String]>) -> Result<(), Failure> {
        let Ok(own) = self.own.all(self.host) else { return Ok(()) };
        let mut of_root = self.of_root().into_iter();
        let found = match names {
            None if own.is_empty() && !self.host.is_privileged() => of_root.next(),
            None => None,
            Some(names) => {
                let meant = names.iter().filter_map(|name| self.address_of(name).transpose());
                let meant = meant.collect::<Result<Vec<_>, _>>()?;
                let is_own = |bdf: &String| own.iter().any(|saved| saved.bdf == *bdf);
                of_root.find(|saved| meant.contains(&saved.bdf) && !is_own(&saved.bdf))
            }
        };
        let Some(saved) = found else { return Ok(()) };
        let words = names.map_or_else(|| "--all".to_owned(), |names| names.join(" "));
        let summary = format!("{} was taken by root", saved.display_name());
        Err(Diagnostic::new(SR0309, summary)
            .with_cause("its saved state is in the run directory /run/slipring")
            .with_help(format!("sudo slipring nic {verb} {words} --run-dir /run/slipring"))
            .into())
    }
}
