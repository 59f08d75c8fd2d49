//! Prefetch hints and vector instructions, as safe functions.
//!
//! ```text
//!   Simd::detect() -- asks the processor, once --> Simd { level }
//!   Simd::scalar() -- for comparison             -> every call: level --> AVX2 | scalar
//! ```
//!
//! Engines are `forbid(unsafe_code)`; the unsafe blocks that vector instructions need are here. A
//! program, or an engine's constructor, creates a [`Simd`] and keeps it. Results never depend on
//! the level: tests compare both implementations for all lengths and alignments.
//!
//! # Invariant
//! A [`Simd`] whose level is AVX2 exists only where the processor and the system support AVX2.
//!
//! # Not for
//! Loops that the compiler vectorizes as well without help.
#![no_std]
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

#[cfg(target_arch = "x86_64")]
mod avx2;
mod prefetch;
mod scalar;

pub use prefetch::{prefetch, prefetch_address, prefetch_element};

#[cfg(target_arch = "x86_64")]
cpufeatures::new!(has_avx2, "avx2");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Scalar,
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

/// The level that the processor supports, and the functions that depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Simd {
    level: Level,
}

impl Simd {
    /// The best level that this processor supports. Detected once per process; later calls read a
    /// variable.
    #[inline]
    #[must_use]
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if has_avx2::get() {
            return Self { level: Level::Avx2 };
        }
        Self::scalar()
    }

    /// Uses no vector instructions, for comparison.
    #[inline]
    #[must_use]
    pub const fn scalar() -> Self {
        Self { level: Level::Scalar }
    }

    /// The name of the level, for reports: `avx2` or `scalar`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self.level {
            Level::Scalar => "scalar",
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => "avx2",
        }
    }

    /// Adds all 32-bit words of whole blocks of 32 bytes, in the host's byte order. Modulo 0xffff,
    /// this is the sum of which the Internet checksum is the complement. At most 2^32 words are
    /// added exactly.
    #[inline]
    #[must_use]
    pub fn sum_words(self, blocks: &[[u8; 32]]) -> u64 {
        match self.level {
            Level::Scalar => scalar::sum_words(blocks),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the level says that this processor has AVX2.
            #[allow(unsafe_code)]
            Level::Avx2 => unsafe { avx2::sum_words(blocks) },
        }
    }

    /// Number of keys that are not above `key`, in a node with ascending keys. In a search tree,
    /// this is the index of the child to follow. `N` is 4, 8, 12 or 16; other multiples of 4 work.
    #[inline]
    #[must_use]
    pub fn rank<const N: usize>(self, node: &[u64; N], key: u64) -> usize {
        const { assert!(N.is_multiple_of(4) && N > 0) };
        match self.level {
            Level::Scalar => scalar::rank(node, key),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the level says that this processor has AVX2.
            #[allow(unsafe_code)]
            Level::Avx2 => unsafe { avx2::rank(node, key) },
        }
    }

    /// Moves searches one level down a tree: `places[i]` becomes `child(places[i], rank)`, with the
    /// [`Self::rank`] of `keys[i]` in the node at `places[i]`. One call moves many searches, so
    /// that their memory accesses overlap, and `child` can prefetch. If the slices differ in
    /// length, the surplus of the longer one is ignored.
    #[inline]
    pub fn descend<'n, const N: usize>(
        self,
        keys: &[u64],
        places: &mut [u32],
        node: impl Fn(u32) -> &'n [u64; N],
        child: impl Fn(u32, usize) -> u32,
    ) {
        const { assert!(N.is_multiple_of(4) && N > 0) };
        match self.level {
            Level::Scalar => scalar::descend(keys, places, node, child),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the level says that this processor has AVX2.
            #[allow(unsafe_code)]
            Level::Avx2 => unsafe { avx2::descend(keys, places, node, child) },
        }
    }

    /// Returns which of a hash bucket's tags equal `tag`: bit `i` is set if `tags[i]` does.
    #[inline]
    #[must_use]
    pub fn matching_tags(self, tags: &[u8; 16], tag: u8) -> u16 {
        match self.level {
            Level::Scalar => scalar::matching_tags(tags, tag),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the level says that this processor has AVX2.
            #[allow(unsafe_code)]
            Level::Avx2 => unsafe { avx2::matching_tags(tags, tag) },
        }
    }
}

impl Default for Simd {
    fn default() -> Self {
        Self::detect()
    }
}

#[cfg(test)]
mod tests;
