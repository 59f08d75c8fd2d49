//! Lookup tables of rules.
//!
//! A table maps keys of one kind to values. Tables of IP and Ethernet addresses find the longest
//! prefix; other tables match exactly. Each distinct value is stored once and shared by all entries
//! that have it.
//!
//! Not for the text of commands (see [`crate::text`]), or which rule names which table.

mod entry;
mod flow;
mod key;
mod registry;
mod value;
mod value_kind;

pub use entry::{FoundValues, LookupTable, TableError};
pub use flow::{FlowFields, IpfwFlowKey};
pub use key::{TableKey, TableKeyError};
pub use registry::{EntryChange, EntryChangeResult, Tables};
pub use value::{TableValue, TableValueError, ValueKinds};
pub use value_kind::ValueKind;

/// The kind of a table's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKind {
    /// IPv4 and IPv6 prefixes.
    Addr,
    /// Names of ports.
    Iface,
    /// Numbers, such as ports and marks.
    Number,
    /// Prefixes of Ethernet addresses.
    Mac,
    /// Some fields of a flow.
    Flow(FlowFields),
}

impl core::fmt::Display for TableKind {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Addr => f.write_str("addr"),
            Self::Iface => f.write_str("iface"),
            Self::Number => f.write_str("number"),
            Self::Mac => f.write_str("mac"),
            Self::Flow(fields) => write!(f, "flow:{fields}"),
        }
    }
}
