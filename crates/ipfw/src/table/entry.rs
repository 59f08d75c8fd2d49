use alloc::string::String;
use alloc::vec::Vec;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry as Slot;
use slipring_classify::prefixes::{NO_PREFIX, PrefixMap};
use slipring_classify::trie;
use slipring_wire::MacAddr;

use super::TableKind;
use super::flow::IpfwFlowKey;
use super::key::{TableKey, TableKeyError};
use super::value::{TableValue, TableValueError};
use crate::keyed::KeyedBuildHasher;
use crate::packet::IpFamily;
use crate::text::TableOptions;

type ValueMap<K> = HashMap<K, u32, KeyedBuildHasher>;

#[derive(Clone, Debug)]
enum TableEntries {
    Addr {
        v4: PrefixMap<u32>,
        v6: PrefixMap<u128>,
    },
    Iface(ValueMap<String>),
    Number(ValueMap<u32>),
    /// Keys are the bits of the address, followed by 16 zero bits.
    Mac(PrefixMap<u64>),
    Flow(ValueMap<IpfwFlowKey>),
}

/// A table: its options and its entries.
#[derive(Clone, Debug)]
pub struct LookupTable {
    /// The options of the table. Later commands can change the limit and the lock, and `swap`
    /// exchanges the algorithm and the masks.
    pub options: TableOptions,
    /// The number of the table that listings show.
    pub index: u32,
    entries: TableEntries,
    /// Every distinct value, with the number of entries that have it. In a free slot, this number
    /// is 0.
    values: Vec<(TableValue, u32)>,
    value_indices: ValueMap<TableValue>,
    free: Vec<u32>,
    /// Index of the value that was added last.
    last: u32,
}

/// Why an entry was not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// The key already exists.
    #[error("record already exists")]
    Exists,
    /// The key does not exist.
    #[error("record not found")]
    NotFound,
    /// The table is full.
    #[error("limit hit")]
    Limit,
    /// The table is locked.
    #[error("table is locked")]
    Locked,
    /// The key is not valid for this table.
    #[error(transparent)]
    Key(#[from] TableKeyError),
    /// The value is not valid for this table.
    #[error(transparent)]
    Value(#[from] TableValueError),
}

impl TableError {
    /// Returns whether the error is an existing or a missing key, which `-q` ignores.
    #[must_use]
    pub const fn is_harmless(&self) -> bool {
        matches!(self, Self::Exists | Self::NotFound)
    }
}

impl LookupTable {
    /// Builds an empty table. `secret` keys its hashes, for the case that a program adds the flows
    /// or ports of packets to the table: senders cannot choose keys that collide.
    #[must_use]
    pub fn new(options: TableOptions, index: u32, secret: [u64; 2]) -> Self {
        let hasher = KeyedBuildHasher(secret);
        let entries = TableEntries::new(options.kind, hasher);
        let (values, free) = (Vec::new(), Vec::new());
        let value_indices = ValueMap::with_hasher(hasher);
        Self { options, index, entries, values, value_indices, free, last: 0 }
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.entries {
            TableEntries::Addr { v4, v6 } => v4.len() + v6.len(),
            TableEntries::Iface(map) => map.len(),
            TableEntries::Number(map) => map.len(),
            TableEntries::Mac(prefixes) => prefixes.len(),
            TableEntries::Flow(map) => map.len(),
        }
    }

    /// Numbers of IPv4 prefixes and of IPv6 prefixes in an address table; `None` for other kinds of
    /// tables.
    #[must_use]
    pub fn family_lens(&self) -> Option<(usize, usize)> {
        match &self.entries {
            TableEntries::Addr { v4, v6 } => Some((v4.len(), v6.len())),
            _ => None,
        }
    }

    /// Returns whether the table has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        *self = Self::new(self.options.clone(), self.index, self.value_indices.hasher().0);
    }

    /// Inserts an entry. With `update`, the value of an existing key is replaced, and the old value
    /// is returned.
    ///
    /// # Errors
    /// [`TableError::Exists`] if the key exists and `update` is false, or [`TableError::Limit`] if
    /// the table is full or `key` is of another kind than the table's keys. In all cases the table
    /// is unchanged.
    pub fn insert(
        &mut self,
        key: &TableKey,
        value: TableValue,
        update: bool,
    ) -> Result<Option<TableValue>, TableError> {
        let limit = self.options.limit as usize;
        let grows = limit == 0 || self.len() < limit;
        let index = self.intern(value);
        match self.entries.insert_if(key, index, update, grows) {
            Ok(old) => Ok(old.map(|old| self.release(old))),
            Err(at) => {
                self.release(index);
                Err(if at.is_some() { TableError::Exists } else { TableError::Limit })
            }
        }
    }

    /// Removes an entry and returns its value.
    ///
    /// # Errors
    /// [`TableError::NotFound`] if the table has no such key.
    pub fn remove(&mut self, key: &TableKey) -> Result<TableValue, TableError> {
        let index = self.entries.remove(key).ok_or(TableError::NotFound)?;
        Ok(self.release(index))
    }

    fn exact(&self, key: &TableKey) -> Option<u32> {
        match (&self.entries, key) {
            (TableEntries::Addr { v4, .. }, TableKey::V4(bits, len)) => v4.exact(*bits, *len),
            (TableEntries::Addr { v6, .. }, TableKey::V6(bits, len)) => v6.exact(*bits, *len),
            (TableEntries::Iface(map), TableKey::Iface(name)) => map.get(name).copied(),
            (TableEntries::Number(map), TableKey::Number(number)) => map.get(number).copied(),
            (TableEntries::Mac(map), TableKey::Mac(bits, len)) => map.exact(left_mac(*bits), *len),
            (TableEntries::Flow(map), TableKey::Flow(flow)) => map.get(flow).copied(),
            _ => None,
        }
    }

    fn intern(&mut self, value: TableValue) -> u32 {
        // The last added value is tried first, because consecutive entries mostly have the same
        // value.
        let last = self.values.get_mut(self.last as usize);
        if let Some((_, uses)) = last.filter(|(last, uses)| *uses > 0 && *last == value) {
            *uses += 1;
            return self.last;
        }
        self.last = self.intern_other(value);
        self.last
    }

    fn intern_other(&mut self, value: TableValue) -> u32 {
        if let Some(&index) = self.value_indices.get(&value) {
            self.values[index as usize].1 += 1;
            return index;
        }
        let index = self.free.pop().unwrap_or(self.values.len() as u32);
        self.value_indices.insert(value.clone(), index);
        match self.values.get_mut(index as usize) {
            Some(slot) => *slot = (value, 1),
            None => self.values.push((value, 1)),
        }
        index
    }

    fn release(&mut self, index: u32) -> TableValue {
        let (value, uses) = &mut self.values[index as usize];
        *uses -= 1;
        let (value, unused) = (value.clone(), *uses == 0);
        if unused {
            self.value_indices.remove(&value);
            self.free.push(index);
        }
        value
    }

    fn value(&self, index: u32) -> &TableValue {
        &self.values[index as usize].0
    }

    /// Returns whether lookups are at full speed. Changes to a prefix table make lookups slower
    /// until [`Self::settle`].
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        match &self.entries {
            TableEntries::Addr { v4, v6 } => v4.is_settled() && v6.is_settled(),
            TableEntries::Mac(map) => map.is_settled(),
            TableEntries::Iface(_) | TableEntries::Number(_) | TableEntries::Flow(_) => true,
        }
    }

    /// Restores full lookup speed after changes to prefix tables.
    pub fn settle(&mut self) {
        match &mut self.entries {
            TableEntries::Addr { v4, v6 } => {
                v4.settle();
                v6.settle();
            }
            TableEntries::Mac(map) => map.settle(),
            TableEntries::Iface(_) | TableEntries::Number(_) | TableEntries::Flow(_) => {}
        }
    }

    /// Returns the value for an IPv4 address.
    #[must_use]
    pub fn find_v4(&self, address: u32) -> Option<&TableValue> {
        let TableEntries::Addr { v4, .. } = &self.entries else { return None };
        v4.get(address).map(|index| self.value(index))
    }

    /// Looks up at most [`FoundValues::MAX_LOOKUPS`] addresses together, so that memory accesses
    /// overlap.
    pub fn find_all(
        &self,
        addresses: impl Iterator<Item = (IpFamily, u128)> + Clone,
        found: &mut FoundValues,
    ) {
        let TableEntries::Addr { v4: narrow, v6: wide } = &self.entries else { return };
        let of = |version: IpFamily| {
            let all = addresses.clone().enumerate();
            all.filter(move |(_, (has, _))| *has == version).map(|(at, (_, bits))| (at, bits))
        };
        look_up(narrow, of(IpFamily::V4).map(|(at, bits)| (at, bits as u32)), found);
        look_up(wide, of(IpFamily::V6), found);
    }

    /// Iterates over the values found, in the order of the addresses.
    pub fn values_of(&self, found: &FoundValues) -> impl Iterator<Item = Option<&TableValue>> {
        found.0.map(|index| (index != NO_PREFIX).then(|| self.value(index))).into_iter()
    }

    /// Returns the value for an IPv6 address.
    #[must_use]
    pub fn find_v6(&self, address: u128) -> Option<&TableValue> {
        let TableEntries::Addr { v6, .. } = &self.entries else { return None };
        v6.get(address).map(|index| self.value(index))
    }

    /// Returns the value for a port name.
    #[must_use]
    pub fn find_iface(&self, name: &str) -> Option<&TableValue> {
        let TableEntries::Iface(map) = &self.entries else { return None };
        map.get(name).map(|&index| self.value(index))
    }

    /// Returns the value for a number.
    #[must_use]
    pub fn find_number(&self, number: u32) -> Option<&TableValue> {
        let TableEntries::Number(map) = &self.entries else { return None };
        map.get(&number).map(|&index| self.value(index))
    }

    /// Returns the value for an Ethernet address.
    #[must_use]
    pub fn find_mac(&self, mac: MacAddr) -> Option<&TableValue> {
        let TableEntries::Mac(map) = &self.entries else { return None };
        map.get(left_mac(mac.to_u64())).map(|index| self.value(index))
    }

    /// Returns the value for a flow; only the fields of the table are compared.
    #[must_use]
    pub fn find_flow(&self, flow: IpfwFlowKey) -> Option<&TableValue> {
        let (TableEntries::Flow(map), TableKind::Flow(fields)) = (&self.entries, self.options.kind)
        else {
            return None;
        };
        map.get(&flow.only(fields)).map(|&index| self.value(index))
    }

    /// Returns the entry that a packet with `key` would find.
    #[must_use]
    pub fn lookup(&self, key: &TableKey) -> Option<(TableKey, &TableValue)> {
        let (found, index) = match (&self.entries, key) {
            (TableEntries::Addr { v4, .. }, TableKey::V4(bits, _)) => {
                let (len, index) = v4.longest(*bits)?;
                (
                    TableKey::V4(
                        bits & (u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0)),
                        len,
                    ),
                    index,
                )
            }
            (TableEntries::Addr { v6, .. }, TableKey::V6(bits, _)) => {
                let (len, index) = v6.longest(*bits)?;
                (
                    TableKey::V6(
                        bits & (u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0)),
                        len,
                    ),
                    index,
                )
            }
            (TableEntries::Mac(map), TableKey::Mac(bits, _)) => {
                let (len, index) = map.longest(left_mac(*bits))?;
                (TableKey::Mac(bits & !((1 << (48 - len)) - 1), len), index)
            }
            _ => (key.clone(), self.exact(key)?),
        };
        Some((found, self.value(index)))
    }

    /// Returns all entries, sorted by key.
    #[must_use]
    pub fn sorted(&self) -> Vec<(TableKey, &TableValue)> {
        let mut all: Vec<_> = self.entries.keys();
        all.sort_unstable();
        all.into_iter().map(|(key, index)| (key, self.value(index))).collect()
    }
}

/// Results of looking up several addresses, by index.
#[derive(Clone, Copy, Debug)]
pub struct FoundValues([u32; Self::MAX_LOOKUPS]);

impl FoundValues {
    /// Maximum number of addresses that are looked up together.
    pub const MAX_LOOKUPS: usize = 32;
}

impl Default for FoundValues {
    fn default() -> Self {
        Self([NO_PREFIX; Self::MAX_LOOKUPS])
    }
}

fn look_up<K: trie::TrieKey>(
    prefixes: &PrefixMap<K>,
    asked: impl Iterator<Item = (usize, K)>,
    found: &mut FoundValues,
) {
    let (mut positions, mut keys) =
        ([0; FoundValues::MAX_LOOKUPS], [K::ZERO; FoundValues::MAX_LOOKUPS]);
    let all = positions.iter_mut().zip(&mut keys).zip(asked);
    let count = all.map(|((position, key), asked)| (*position, *key) = asked).count();
    let mut numbers = [NO_PREFIX; FoundValues::MAX_LOOKUPS];
    prefixes.get_many(&keys[..count], &mut numbers[..count]);
    for (&position, number) in positions[..count].iter().zip(numbers) {
        found.0[position] = number;
    }
}

fn insert_if<K: Eq + core::hash::Hash>(
    map: &mut ValueMap<K>,
    key: K,
    value: u32,
    changes: bool,
    grows: bool,
) -> Result<Option<u32>, Option<u32>> {
    match map.entry(key) {
        Slot::Vacant(slot) if grows => {
            slot.insert(value);
            Ok(None)
        }
        Slot::Vacant(_) => Err(None),
        Slot::Occupied(mut slot) if changes => Ok(Some(slot.insert(value))),
        Slot::Occupied(slot) => Err(Some(*slot.get())),
    }
}

const fn left_mac(bits: u64) -> u64 {
    bits << 16
}

impl TableEntries {
    fn new(kind: TableKind, hasher: KeyedBuildHasher) -> Self {
        match kind {
            TableKind::Addr => Self::Addr { v4: PrefixMap::default(), v6: PrefixMap::default() },
            TableKind::Iface => Self::Iface(ValueMap::with_hasher(hasher)),
            TableKind::Number => Self::Number(ValueMap::with_hasher(hasher)),
            TableKind::Mac => Self::Mac(PrefixMap::default()),
            TableKind::Flow(_) => Self::Flow(ValueMap::with_hasher(hasher)),
        }
    }

    /// Like [`PrefixMap::insert_if`].
    fn insert_if(
        &mut self,
        key: &TableKey,
        value: u32,
        changes: bool,
        grows: bool,
    ) -> Result<Option<u32>, Option<u32>> {
        match (self, key) {
            (Self::Addr { v4, .. }, TableKey::V4(bits, len)) => {
                v4.insert_if((*bits, *len), value, changes, grows)
            }
            (Self::Addr { v6, .. }, TableKey::V6(bits, len)) => {
                v6.insert_if((*bits, *len), value, changes, grows)
            }
            (Self::Iface(map), TableKey::Iface(name)) => {
                insert_if(map, name.clone(), value, changes, grows)
            }
            (Self::Number(map), TableKey::Number(number)) => {
                insert_if(map, *number, value, changes, grows)
            }
            (Self::Mac(map), TableKey::Mac(bits, len)) => {
                map.insert_if((left_mac(*bits), *len), value, changes, grows)
            }
            (Self::Flow(map), TableKey::Flow(flow)) => insert_if(map, *flow, value, changes, grows),
            _ => Err(None),
        }
    }

    fn remove(&mut self, key: &TableKey) -> Option<u32> {
        match (self, key) {
            (Self::Addr { v4, .. }, TableKey::V4(bits, len)) => v4.remove(*bits, *len),
            (Self::Addr { v6, .. }, TableKey::V6(bits, len)) => v6.remove(*bits, *len),
            (Self::Iface(map), TableKey::Iface(name)) => map.remove(name),
            (Self::Number(map), TableKey::Number(number)) => map.remove(number),
            (Self::Mac(map), TableKey::Mac(bits, len)) => map.remove(left_mac(*bits), *len),
            (Self::Flow(map), TableKey::Flow(flow)) => map.remove(flow),
            _ => None,
        }
    }

    fn keys(&self) -> Vec<(TableKey, u32)> {
        match self {
            Self::Addr { v4, v6 } => {
                let v4 = v4.iter().map(|(bits, len, at)| (TableKey::V4(bits, len), at));
                v4.chain(v6.iter().map(|(bits, len, at)| (TableKey::V6(bits, len), at))).collect()
            }
            Self::Iface(map) => {
                map.iter().map(|(key, &at)| (TableKey::Iface(key.clone()), at)).collect()
            }
            Self::Number(map) => {
                map.iter().map(|(&key, &at)| (TableKey::Number(key), at)).collect()
            }
            Self::Mac(map) => {
                map.iter().map(|(bits, len, at)| (TableKey::Mac(bits >> 16, len), at)).collect()
            }
            Self::Flow(map) => map.iter().map(|(&key, &at)| (TableKey::Flow(key), at)).collect(),
        }
    }
}
