//! The bucket arrays of routes with several next hops, and their indices.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::buckets::assign;
use crate::indices::IndexPool;
use crate::tables::{AdjacencyIndex, BUCKETS};

/// All bucket arrays.
#[derive(Debug)]
pub(crate) struct BucketArrays {
    values: Vec<[AdjacencyIndex; BUCKETS]>,
    pool: IndexPool,
    has_changed: bool,
    published: Arc<[[AdjacencyIndex; BUCKETS]]>,
}

impl BucketArrays {
    pub(crate) fn new(limit: u32) -> Self {
        let pool = IndexPool::new(0, limit);
        Self { values: Vec::new(), pool, has_changed: false, published: Arc::new([]) }
    }

    /// Returns the index of an array that spreads packets over `hops` by weight; `None` if there is
    /// no space. If `before` is the index of an array, that array keeps its index, and as few of
    /// its buckets as possible change.
    pub(crate) fn assign(
        &mut self,
        before: Option<u16>,
        hops: &[(AdjacencyIndex, u16)],
    ) -> Option<u16> {
        let old = before.and_then(|index| self.values.get(usize::from(index)));
        let new = assign(old, hops);
        let index = before.or_else(|| self.pool.take())?;
        match self.values.get_mut(usize::from(index)) {
            Some(place) if *place == new => {}
            Some(place) => {
                *place = new;
                self.has_changed = true;
            }
            None => {
                self.values.push(new);
                self.has_changed = true;
            }
        }
        Some(index)
    }

    pub(crate) fn give_back(&mut self, index: u16, generation: u64) {
        self.pool.give_back(index, generation);
    }

    pub(crate) fn settle(&mut self, oldest: u64) {
        self.pool.settle(oldest);
    }

    pub(crate) fn available(&self) -> usize {
        self.pool.available()
    }

    /// Returns whether the arrays have changed since the last call, and all arrays by index.
    pub(crate) fn publish(&mut self) -> (bool, Arc<[[AdjacencyIndex; BUCKETS]]>) {
        let has_changed = core::mem::take(&mut self.has_changed);
        if has_changed {
            self.published = self.values.as_slice().into();
        }
        (has_changed, self.published.clone())
    }
}
