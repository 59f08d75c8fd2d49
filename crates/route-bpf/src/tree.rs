//! The IPv6 tree of a VRF: two buffers, of which BPF programs use one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use slipring_bpf::MappedArray;
use slipring_classify::intervals::{IntervalTree, NODE_FLAG};

use crate::layout::{NODE_SIZE, NODES_OFFSET};

/// A root entry that is neither a node nor a target: the program leaves all packets to the kernel.
const NO_TREE: u32 = NODE_FLAG - 1;

/// Two tables. Programs use the table with the number `active`, and none before the first call of
/// [`Self::set_published`].
#[derive(Debug)]
pub(crate) struct TreeBuffers<T> {
    buffers: [(T, Arc<MappedArray>); 2],
    active: usize,
}

impl<T> TreeBuffers<T> {
    pub(crate) fn new(first: (T, Arc<MappedArray>), second: (T, Arc<MappedArray>)) -> Self {
        Self { buffers: [first, second], active: 0 }
    }

    /// Writes a tree into the table that no BPF program uses, and returns this table. The caller
    /// must then publish it. If there is no tree, or if it has more than `capacity` nodes, the
    /// written table leaves all packets to the kernel.
    pub(crate) fn write(&self, tree: Option<&IntervalTree>, capacity: u32) -> &T {
        let (table, array) = &self.buffers[self.active ^ 1];
        let tree = tree.filter(|tree| tree.nodes().len() <= capacity as usize);
        let first = |tree: &IntervalTree| (tree.root(), tree.levels());
        let (root, levels) = tree.map_or((NO_TREE, 0), first);
        put(array, 0, u64::from(root) | u64::from(levels) << 32);
        let nodes = tree.map_or(&[][..], IntervalTree::nodes);
        for (at, node) in nodes.iter().enumerate() {
            let start = NODES_OFFSET as usize + NODE_SIZE as usize * at;
            let bytes = node.to_bytes();
            for (word, at) in bytes.as_chunks::<8>().0.iter().zip((start..).step_by(8)) {
                put(array, at, u64::from_ne_bytes(*word));
            }
        }
        table
    }

    /// Records that BPF programs now use the table that was written last.
    pub(crate) fn set_published(&mut self) {
        self.active ^= 1;
    }
}

/// Stores a word. Relaxed suffices, because the system call that publishes the table orders the
/// store.
fn put(array: &MappedArray, offset: usize, word: u64) {
    let cell = array.atomic::<AtomicU64>(0, offset).expect("the tree was checked against the size");
    cell.store(word, Ordering::Relaxed);
}
