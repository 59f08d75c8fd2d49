use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use super::list::RuleList;
use super::settings::IpfwSettings;
use super::translations::Translations;
use crate::table::{LookupTable, Tables};

/// Index of a port in [`IpfwConfig::ports`].
pub type PortIndex = u16;

/// The configuration, which commands change and packets do not, and the counters of the rules. A
/// copy is cheap, because rules and tables are shared until either side changes them.
#[derive(Clone, Debug)]
pub struct IpfwConfig {
    /// The rules with their counters.
    pub list: RuleList,
    /// The lookup tables.
    pub tables: Tables,
    /// Disabled sets, one bit each.
    pub disabled_sets: u32,
    /// The values of the sysctls, except those that the state table has.
    pub settings: IpfwSettings,
    /// The instances of `nat` and `nptv6`.
    pub translations: Translations,
    /// Names of the ports.
    pub ports: Vec<String>,
    /// The addresses of `me`, each with the port that has it; `None` if no port does.
    pub me: Vec<(IpAddr, Option<PortIndex>)>,
}

impl IpfwConfig {
    /// Returns the table that rules of `set` refer to by `name`.
    #[must_use]
    pub fn table(&self, set: u8, name: &str) -> Option<&LookupTable> {
        self.tables.get(self.table_set(set), name)
    }

    /// The set in which table names are looked up: 0, unless each set has its own tables.
    #[must_use]
    pub const fn table_set(&self, set: u8) -> u8 {
        if self.settings.tables_sets { set } else { 0 }
    }

    /// The name of a port; empty if it has none.
    #[must_use]
    pub fn port_name(&self, port: Option<PortIndex>) -> &str {
        port.and_then(|port| self.ports.get(usize::from(port))).map_or("", |name| name)
    }

    /// Returns whether a set is enabled, so that its rules are run.
    #[inline]
    #[must_use]
    pub const fn is_enabled(&self, set: u8) -> bool {
        self.disabled_sets >> set & 1 == 0
    }
}
