//! Numbers that nobody can guess.

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

/// 64 bits of the kernel's random source: for tokens, and for the keys of hashes that strangers feed.
/// Never the same for two calls, and no call says anything of another.
///
/// # Panics
/// If the kernel refuses. A secret that could be guessed would be worse.
#[must_use]
pub fn secret_word() -> u64 {
    let mut bytes = [0; 8];
    loop {
        match getrandom(&mut bytes, GetRandomFlags::empty()) {
            Ok(8) => return u64::from_ne_bytes(bytes),
            // A signal came before the source was ready: never so few bytes after that.
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => panic!("the kernel gives no random numbers: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_words_are_alike() {
        let words: std::collections::BTreeSet<u64> = (0..1000).map(|_| secret_word()).collect();
        assert_eq!(words.len(), 1000);
    }
}
