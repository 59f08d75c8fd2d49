//! Hashing by a secret.

use core::hash::BuildHasher;

use siphasher::sip::SipHasher13;

/// Keys of a hash. A sender that does not know them cannot construct colliding keys of a map.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyedBuildHasher(pub(crate) [u64; 2]);

impl BuildHasher for KeyedBuildHasher {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.0[0], self.0[1])
    }
}
