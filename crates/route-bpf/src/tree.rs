//! The IPv6 tree of a VRF: two buffers, of which programs use one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use slipring_bpf::MappedArray;

use crate::layout::{NODE_FLAG, NODE_KEYS, NODE_SIZE, NODES_OFFSET};

/// The nodes of a search tree over the halves of 128-bit values, for the program.
pub trait TreeNodes {
    /// Number of nodes.
    fn len(&self) -> usize;

    /// Whether there are no nodes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The keys of a node, ascending, and the entries below them. The last key that is not above a
    /// value leads to the value's entry. An entry with the top bit refers to a node, otherwise it is
    /// a target index.
    fn node(&self, at: usize) -> ([u64; 16], [u32; 16]);
}

/// A search tree, as [`crate::BpfRouter::set_v6`] takes it.
#[derive(Clone, Copy)]
pub struct TreeView<'t> {
    /// The entry of the root.
    pub root: u32,
    /// The levels of nodes that search for the upper half of the value; nodes after them search for
    /// the lower half.
    pub levels: u32,
    /// The nodes.
    pub nodes: &'t dyn TreeNodes,
}

impl std::fmt::Debug for TreeView<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (root, levels, nodes) = (self.root, self.levels, self.nodes.len());
        write!(f, "TreeView {{ root: {root:#x}, levels: {levels}, nodes: {nodes} }}")
    }
}

/// A root entry that leads nowhere: the program passes all packets to the kernel.
const TOO_LARGE: u32 = NODE_FLAG - 1;

/// Two tables; `active` is the number of the one that programs use.
#[derive(Debug)]
pub(crate) struct TreeBuffers<T> {
    buffers: [(T, Arc<MappedArray>); 2],
    active: usize,
}

impl<T> TreeBuffers<T> {
    pub(crate) fn new(first: (T, Arc<MappedArray>), second: (T, Arc<MappedArray>)) -> Self {
        Self { buffers: [first, second], active: 0 }
    }

    /// Writes a tree into the table that no program uses; returns the table, which the caller
    /// publishes. A tree of more than `capacity` nodes sends all packets to the kernel.
    pub(crate) fn write(&mut self, tree: TreeView<'_>, capacity: u32) -> &T {
        self.active ^= 1;
        let (table, array) = &self.buffers[self.active];
        let fits = tree.nodes.len() <= capacity as usize;
        let root = if fits { tree.root } else { TOO_LARGE };
        put(array, 0, u64::from(root) | u64::from(tree.levels) << 32);
        for at in 0..if fits { tree.nodes.len() } else { 0 } {
            write_node(array, at, tree.nodes.node(at));
        }
        table
    }
}

fn write_node(array: &MappedArray, at: usize, (keys, entries): ([u64; 16], [u32; 16])) {
    let start = NODES_OFFSET as usize + NODE_SIZE as usize * at;
    for (at, key) in keys.into_iter().enumerate() {
        put(array, start + 8 * at, key);
    }
    for (at, pair) in entries.chunks_exact(2).enumerate() {
        let word = u64::from(pair[0]) | u64::from(pair[1]) << 32;
        put(array, start + 8 * (NODE_KEYS as usize + at), word);
    }
}

/// Stores a word. Relaxed: the system call that publishes the table orders it.
fn put(array: &MappedArray, offset: usize, word: u64) {
    let cell = array.atomic::<AtomicU64>(0, offset).expect("the tree was checked against the size");
    cell.store(word, Ordering::Relaxed);
}
