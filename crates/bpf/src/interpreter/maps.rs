//! Maps of the interpreter, which behave like the kernel's.

use std::collections::BTreeMap;

use crate::array::MappedArray;
use crate::map::{BpfMapKind, BpfMapSpec, UpdateMode};

const ENOENT: i32 = 2;
const E2BIG: i32 = 7;
const EEXIST: i32 = 17;
const EINVAL: i32 = 22;

const ONLY_NEW: u64 = UpdateMode::OnlyNew as u64;
const ONLY_EXISTING: u64 = UpdateMode::OnlyExisting as u64;

/// A map of the interpreter. A map per CPU contains only the values of one CPU.
#[derive(Debug, Clone)]
pub struct SimulatedMap {
    spec: BpfMapSpec,
    /// Distance between two values in bytes.
    stride: usize,
    values: Vec<u8>,
    /// Index of the value of each key; unused by arrays.
    slots: BTreeMap<Vec<u8>, usize>,
    /// Indices of values that have no key; unused by arrays.
    free: Vec<usize>,
}

impl SimulatedMap {
    /// An empty map.
    #[must_use]
    pub fn new(spec: BpfMapSpec) -> Self {
        let stride = (spec.value_size as usize).next_multiple_of(8);
        let entries = spec.max_entries as usize;
        let values = vec![0; stride * entries];
        Self { spec, stride, values, slots: BTreeMap::new(), free: (0..entries).rev().collect() }
    }

    /// Returns the value of a key; `None` if the map does not have the key.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<&[u8]> {
        let at = self.find(key)? * self.stride;
        Some(&self.values[at..at + self.spec.value_size as usize])
    }

    /// Sets a value; `flags` are those of [`UpdateMode`].
    ///
    /// # Errors
    /// The kernel's error number.
    pub fn set(&mut self, key: &[u8], value: &[u8], flags: u64) -> Result<(), i32> {
        if value.len() != self.spec.value_size as usize || !self.takes(key) || flags > 2 {
            return Err(EINVAL);
        }
        let slot = if self.is_array() {
            self.array_slot(key, flags)?
        } else {
            self.keyed_slot(key, flags)?
        };
        let at = slot * self.stride;
        self.values[at..at + value.len()].copy_from_slice(value);
        Ok(())
    }

    /// Removes a value.
    ///
    /// # Errors
    /// The kernel's error number: ENOENT if the key does not exist, EINVAL for arrays.
    pub fn remove(&mut self, key: &[u8]) -> Result<(), i32> {
        if self.is_array() || !self.takes(key) {
            return Err(EINVAL);
        }
        let slot = self.slots.remove(&self.canonical(key)).ok_or(ENOENT)?;
        self.free.push(slot);
        Ok(())
    }

    /// Copies all values of an array of the same specification.
    ///
    /// # Panics
    /// If number or size of the values differ.
    pub fn copy_from(&mut self, array: &MappedArray) {
        assert_eq!(array.len(), self.spec.max_entries, "number of values");
        let size = self.spec.value_size as usize;
        for (index, value) in (0..array.len()).zip(self.values.chunks_exact_mut(self.stride)) {
            array.read(index, &mut value[..size]);
        }
    }

    pub(super) fn spec(&self) -> &BpfMapSpec {
        &self.spec
    }

    pub(super) fn storage(&mut self) -> &mut [u8] {
        &mut self.values
    }

    /// Returns the offset of the key's value in the storage; `None` if the map does not have the
    /// key.
    pub(super) fn offset_of(&self, key: &[u8]) -> Option<usize> {
        Some(self.find(key)? * self.stride)
    }

    /// Returns the number of the map, program, interface or socket at an index; `None` if there is
    /// none.
    pub(super) fn reference(&self, index: u32) -> Option<u32> {
        let value = self.get(&index.to_ne_bytes())?;
        Some(u32::from_ne_bytes(value.try_into().ok()?))
    }

    fn is_array(&self) -> bool {
        matches!(self.spec.kind, BpfMapKind::Array | BpfMapKind::PerCpuArray)
    }

    fn takes(&self, key: &[u8]) -> bool {
        key.len() == self.spec.key_size as usize
            && (self.spec.kind != BpfMapKind::LpmTrie || prefix_len(key) <= (key.len() - 4) * 8)
    }

    fn find(&self, key: &[u8]) -> Option<usize> {
        if !self.takes(key) {
            return None;
        }
        match self.spec.kind {
            BpfMapKind::Array | BpfMapKind::PerCpuArray => self.index(key),
            BpfMapKind::LpmTrie => self.longest_prefix(key),
            _ => self.slots.get(key).copied(),
        }
    }

    fn index(&self, key: &[u8]) -> Option<usize> {
        let index = u32::from_ne_bytes(key.try_into().ok()?);
        (index < self.spec.max_entries).then_some(index as usize)
    }

    fn longest_prefix(&self, key: &[u8]) -> Option<usize> {
        let covers = |prefix: &[u8]| {
            let len = prefix_len(prefix);
            len <= prefix_len(key) && (0..len).all(|bit| bit_of(prefix, bit) == bit_of(key, bit))
        };
        let covering = self.slots.iter().filter(|(prefix, _)| covers(prefix));
        covering.max_by_key(|(prefix, _)| prefix_len(prefix)).map(|(_, &slot)| slot)
    }

    fn array_slot(&self, key: &[u8], flags: u64) -> Result<usize, i32> {
        let slot = self.index(key).ok_or(E2BIG)?;
        if flags == ONLY_NEW { Err(EEXIST) } else { Ok(slot) }
    }

    fn keyed_slot(&mut self, key: &[u8], flags: u64) -> Result<usize, i32> {
        let key = self.canonical(key);
        match (self.slots.get(&key), flags) {
            (Some(_), ONLY_NEW) => Err(EEXIST),
            (Some(&slot), _) => Ok(slot),
            (None, ONLY_EXISTING) => Err(ENOENT),
            (None, _) => {
                let slot = self.free.pop().ok_or(E2BIG)?;
                self.slots.insert(key, slot);
                Ok(slot)
            }
        }
    }

    /// The key in the form in which it is stored: bits after a prefix's length are cleared.
    fn canonical(&self, key: &[u8]) -> Vec<u8> {
        let mut key = key.to_vec();
        if self.spec.kind == BpfMapKind::LpmTrie {
            for bit in prefix_len(&key)..(key.len() - 4) * 8 {
                key[4 + bit / 8] &= !(0x80 >> (bit % 8));
            }
        }
        key
    }
}

/// The prefix length, which is at the start of a trie's key.
fn prefix_len(key: &[u8]) -> usize {
    key.first_chunk().map_or(0, |len| u32::from_ne_bytes(*len) as usize)
}

fn bit_of(key: &[u8], bit: usize) -> bool {
    key[4 + bit / 8] & (0x80 >> (bit % 8)) != 0
}
