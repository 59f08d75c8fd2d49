//! Finds cards by the words of the command line: interfaces, PCI addresses, and the names that
//! taken cards had before, also of those that root has taken.
//!
//! ```text
//!   own run directory     $XDG_RUNTIME_DIR/slipring of a user, /run/slipring of root
//!   root's                /run/slipring: only root can take a card, and all users can read its state
//! ```

use slipring_cli::codes::SR0309;
use slipring_cli::{Diagnostic, Failure};
use slipring_drivers::TakenPeriod;

use crate::checks;
use crate::host::NicHost;
use crate::pci_address::PciAddress;
use crate::refusals::{failed, refused};
use crate::state::{SavedNic, StateDir, boot_id};
use crate::sysfs::{self, NamedDevice, PciNic};

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

    /// Returns root's directory of states; `None` if it is this command's, or not trusted.
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

    /// Returns every saved state. If both directories have one of a card, its own is returned.
    pub(crate) fn all(&self) -> std::io::Result<Vec<SavedNic>> {
        let mut all = self.own.all(self.host)?;
        let more = self.of_root().into_iter();
        let more: Vec<_> =
            more.filter(|saved| all.iter().all(|own| own.bdf != saved.bdf)).collect();
        all.extend(more);
        Ok(all)
    }

    /// Finds a card by interface, by PCI address, or by the name of the interface that it had
    /// before it was taken.
    pub(crate) fn find(&self, name: &str) -> Result<PciNic, Failure> {
        let saved = self.all().map_err(|error| failed("read the saved state", &error))?;
        let before = saved.iter().find(|saved| saved.display_name() == name);
        let device = sysfs::find(self.host.root(), before.map_or(name, |saved| &saved.bdf));
        match (checks::no_card(name, &device), device) {
            (None, NamedDevice::Pci(nic)) => Ok(nic),
            (refusal, _) => Err(refused(name, &refusal.iter().collect::<Vec<_>>()).into()),
        }
    }

    /// Refuses a command about cards whose saved states are in root's directory, and not in this
    /// command's. `names` are the cards; `None` stands for all.
    ///
    /// # Errors
    /// A diagnostic with the command of root. States that cannot be read are left to the command.
    pub(crate) fn refuse_roots(&self, verb: &str, names: Option<&[String]>) -> Result<(), Failure> {
        let Ok(own) = self.own.all(self.host) else { return Ok(()) };
        let is_own = |name: &String| own.iter().any(|saved| is_named(saved, name));
        let mut of_root = self.of_root().into_iter();
        let found = match names {
            None if own.is_empty() && !self.host.is_privileged() => of_root.next(),
            None => None,
            Some(names) => of_root
                .find(|saved| names.iter().any(|name| is_named(saved, name) && !is_own(name))),
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

/// Returns whether a word of the command line means the card of a saved state.
pub(crate) fn is_named(saved: &SavedNic, name: &str) -> bool {
    let address = PciAddress::parse(name);
    saved.display_name() == name || address.is_some_and(|address| address.to_string() == saved.bdf)
}
