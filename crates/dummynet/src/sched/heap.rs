//! A min-heap of queues by key. Each node has four children, which are 64 bytes in a row. A heap of
//! 10,000 queues has only eight levels.

use alloc::vec::Vec;

#[derive(Clone, Copy, Debug)]
struct HeapItem {
    key: u64,
    index: u32,
}

#[derive(Clone, Debug, Default)]
pub(super) struct IndexHeap(Vec<HeapItem>);

const CHILDREN: usize = 4;

impl IndexHeap {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the smallest key and the index of its queue.
    #[inline]
    pub(super) fn first(&self) -> Option<(u64, u32)> {
        self.0.first().map(|item| (item.key, item.index))
    }

    #[inline]
    pub(super) fn push(&mut self, key: u64, index: u32) {
        let item = HeapItem { key, index };
        self.0.push(item);
        let items = &mut self.0[..];
        let mut at = items.len() - 1;
        while at > 0 {
            let parent = (at - 1) / CHILDREN;
            if items[parent].key <= key {
                break;
            }
            items[at] = items[parent];
            at = parent;
        }
        items[at] = item;
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<(u64, u32)> {
        let last = self.0.pop()?;
        let Some(first) = self.0.first().copied() else { return Some((last.key, last.index)) };
        self.sink(last);
        Some((first.key, first.index))
    }

    /// Sets the key of the first item to `key`, which must not be smaller than the old key.
    #[inline]
    pub(super) fn rekey_first(&mut self, key: u64) {
        if let Some(first) = self.0.first().copied() {
            self.sink(HeapItem { key, ..first });
        }
    }

    /// Subtracts `base` from all keys. Keys below `base` become 0.
    pub(super) fn rebase(&mut self, base: u64) {
        self.0.iter_mut().for_each(|item| item.key = item.key.saturating_sub(base));
    }

    pub(super) fn remove(&mut self, index: u32) {
        if let Some(at) = self.0.iter().position(|item| item.index == index) {
            self.0.swap_remove(at);
            let items = core::mem::take(&mut self.0);
            items.into_iter().for_each(|item| self.push(item.key, item.index));
        }
    }

    /// Puts `item` at the top and moves it down to its position.
    #[inline]
    fn sink(&mut self, item: HeapItem) {
        let items = &mut self.0[..];
        let mut at = 0;
        loop {
            let child = at * CHILDREN + 1;
            let Some(children) = items.get(child..).filter(|rest| !rest.is_empty()) else { break };
            let least = match children {
                [a, b, c, d, ..] => {
                    let left = usize::from(b.key < a.key);
                    let right = 2 + usize::from(d.key < c.key);
                    if children[right].key < children[left].key { right } else { left }
                }
                few => (1..few.len()).fold(0, |l, n| if few[n].key < few[l].key { n } else { l }),
            };
            if children[least].key >= item.key {
                break;
            }
            items[at] = children[least];
            at = child + least;
        }
        items[at] = item;
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn heap_behaves_as_a_sorted_list(steps in prop::collection::vec((0u8..8, 0u64..50), 0..400)) {
            let mut heap = IndexHeap::default();
            let mut naive: Vec<(u64, u32)> = Vec::new();
            for (index, (step, key)) in (0u32..).zip(steps) {
                match step {
                    0 | 1 => {
                        let popped = heap.pop();
                        prop_assert_eq!(popped.map(|p| p.0), naive.iter().map(|p| p.0).min());
                        naive.retain(|item| Some(*item) != popped);
                    }
                    2 => {
                        if let Some((old, first)) = heap.first() {
                            heap.rekey_first(old + key);
                            naive.retain(|item| item.1 != first);
                            naive.push((old + key, first));
                        }
                    }
                    3 => {
                        heap.remove(index / 2);
                        naive.retain(|item| item.1 != index / 2);
                    }
                    _ => {
                        heap.push(key, index);
                        naive.push((key, index));
                    }
                }
                prop_assert_eq!(heap.first().map(|p| p.0), naive.iter().map(|p| p.0).min());
                prop_assert_eq!(heap.is_empty(), naive.is_empty());
            }
        }
    }
}
