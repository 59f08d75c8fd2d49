//! Runs publisher and reader under loom: every interleaving and every value that the memory model
//! allows, within three preemptions. With each of the mistakes below, the model must fail.

use std::convert::Infallible;

use loom::sync::Arc;
use loom::sync::atomic::AtomicU64;
use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use loom::sync::atomic::fence;
use loom::thread;
use slipring_test_support::models::{explore, fails};

use super::seqlock::{SeqlockSource, SeqlockWord, seqlock_read, seqlock_write};

const RIGHT: u8 = 0;
/// The mistake: the publisher has no fence after the odd sequence number.
const NO_RELEASE_FENCE: u8 = 1;
/// The mistake: the even sequence number is stored without ordering.
const WEAK_END: u8 = 2;
/// The mistake: the reader has no fence before it reads the sequence number again.
const NO_ACQUIRE_FENCE: u8 = 3;
/// The mistake: the sequence number is loaded without ordering.
const WEAK_START: u8 = 4;
/// The mistake: the sequence number stays even while words are written.
const NEVER_ODD: u8 = 5;

/// A word of the model. `KIND` is 0 for correct code, or one of the mistakes above.
struct ModelWord<const KIND: u8>(AtomicU64);

impl<const KIND: u8> SeqlockWord for ModelWord<KIND> {
    fn store_relaxed(&self, value: u64) {
        self.0.store(value, Relaxed);
    }
    fn store_release(&self, value: u64) {
        self.0.store(value, if KIND == WEAK_END { Relaxed } else { Release });
    }
    fn release_fence() {
        if KIND != NO_RELEASE_FENCE {
            fence(Release);
        }
    }
}

/// A sequence number and two words.
type Published<const KIND: u8> = [ModelWord<KIND>; 3];

struct ModelReader<'p, const KIND: u8> {
    published: &'p Published<KIND>,
    words: [u64; 2],
}

impl<const KIND: u8> SeqlockSource for ModelReader<'_, KIND> {
    type Head = u64;
    type Error = Infallible;

    fn head(&mut self) -> Result<u64, Infallible> {
        let order = if KIND == WEAK_START { Relaxed } else { Acquire };
        let sequence = self.published[0].0.load(order);
        Ok(if KIND == NEVER_ODD { sequence & !1 } else { sequence })
    }
    fn sequence_of(head: &u64) -> u64 {
        *head
    }
    fn read_words(&mut self) -> Result<(), Infallible> {
        self.words = [self.published[1].0.load(Relaxed), self.published[2].0.load(Relaxed)];
        Ok(())
    }
    fn acquire_fence() {
        if KIND != NO_ACQUIRE_FENCE {
            fence(Acquire);
        }
    }
}

/// One thread publishes the value 1 in both words, then the value 2, while another thread reads.
fn publish_and_read<const KIND: u8>() -> impl Fn() + Send + Sync + 'static {
    || {
        let published: Arc<Published<KIND>> =
            Arc::new(std::array::from_fn(|_| ModelWord(AtomicU64::new(0))));
        let publisher = thread::spawn({
            let published = published.clone();
            move || {
                let mut sequence = 0;
                for value in 1..=2 {
                    let words = published[1..].iter().map(|word| (word, value));
                    seqlock_write(&published[0], &mut sequence, words);
                }
            }
        });
        let mut reader = ModelReader { published: &published, words: [0; 2] };
        if let Ok(Some(sequence)) = seqlock_read(&mut reader) {
            assert_eq!(reader.words, [sequence / 2; 2], "words of one moment");
        }
        publisher.join().unwrap();
    }
}

#[test]
fn a_reader_gets_words_of_one_moment_or_none() {
    explore(publish_and_read::<RIGHT>());
}

#[test]
fn without_any_of_the_orderings_a_reader_gets_words_of_two_moments() {
    assert!(
        fails(publish_and_read::<NO_RELEASE_FENCE>()),
        "no fence behind the odd sequence number"
    );
    assert!(fails(publish_and_read::<WEAK_END>()), "an even sequence number that releases nothing");
    assert!(fails(publish_and_read::<NO_ACQUIRE_FENCE>()), "no fence before the second look");
    assert!(fails(publish_and_read::<WEAK_START>()), "a first look that acquires nothing");
    assert!(fails(publish_and_read::<NEVER_ODD>()), "a sequence number that is never odd");
}
