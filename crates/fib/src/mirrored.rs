//! A copy of one of the kernel's tables, kept up to date by notifications and compared with dumps.
//!
//! A dump shows each object as it was at some time after the dump's start. A notification that
//! arrives after the start is at least as new, or another notification follows it. So while a dump
//! runs, notifications take precedence, also over objects that the dump mentions later.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

#[derive(Debug)]
struct Mark {
    /// The number of the latest dump that had begun when a message last stored the object.
    dump: u32,
    /// Whether that message was a notification.
    is_notified: bool,
}

/// The origin of a message about an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Notification,
    Dump,
}

/// Objects by key.
#[derive(Debug)]
pub(crate) struct Mirrored<K, V> {
    objects: BTreeMap<K, (V, Mark)>,
    /// Objects that notifications have deleted since the start of the dump.
    deleted: BTreeSet<K>,
    dump: u32,
    is_dumping: bool,
}

impl<K, V> Default for Mirrored<K, V> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), deleted: BTreeSet::new(), dump: 0, is_dumping: false }
    }
}

impl<K: Ord + Copy, V: PartialEq> Mirrored<K, V> {
    pub(crate) fn get(&self, key: K) -> Option<&V> {
        self.objects.get(&key).map(|object| &object.0)
    }

    pub(crate) fn get_mut(&mut self, key: K) -> Option<&mut V> {
        self.objects.get_mut(&key).map(|object| &mut object.0)
    }

    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        self.objects.iter().map(|(key, object)| (*key, &object.0))
    }

    pub(crate) fn range(
        &self,
        keys: impl core::ops::RangeBounds<K>,
    ) -> impl Iterator<Item = (K, &V)> {
        self.objects.range(keys).map(|(key, object)| (*key, &object.0))
    }

    /// Stores the object, unless a notification since the dump's start takes precedence. Returns
    /// the previous object (`Some(None)` if there was none) if it differs from the new one; `None`
    /// if nothing has changed.
    pub(crate) fn set(&mut self, key: K, value: V, origin: Origin) -> Option<Option<V>> {
        if origin == Origin::Dump && self.deleted.contains(&key) {
            return None;
        }
        self.deleted.remove(&key);
        let is_notified = origin == Origin::Notification;
        let mark = Mark { dump: self.dump, is_notified };
        let Some(object) = self.objects.get_mut(&key) else {
            self.objects.insert(key, (value, mark));
            return Some(None);
        };
        if origin == Origin::Dump && object.1.is_notified && object.1.dump == self.dump {
            return None;
        }
        object.1 = mark;
        (object.0 != value).then(|| Some(core::mem::replace(&mut object.0, value)))
    }

    /// Removes an object that a notification reports as deleted, and returns it.
    pub(crate) fn remove(&mut self, key: K) -> Option<V> {
        if self.is_dumping {
            self.deleted.insert(key);
        }
        self.objects.remove(&key).map(|object| object.0)
    }

    pub(crate) fn begin_dump(&mut self) {
        self.dump = self.dump.wrapping_add(1);
        self.is_dumping = true;
        self.deleted.clear();
    }

    /// Ends the dump. If it was complete, removes and returns the objects that neither the dump nor
    /// a notification since its start has mentioned.
    pub(crate) fn end_dump(&mut self, is_complete: bool) -> Vec<(K, V)> {
        self.is_dumping = false;
        self.deleted.clear();
        if !is_complete {
            return Vec::new();
        }
        let dump = self.dump;
        self.objects
            .extract_if(.., |_, object| object.1.dump != dump)
            .map(|(key, object)| (key, object.0))
            .collect()
    }
}
