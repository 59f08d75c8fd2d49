//! Counts of dropped packets, and the time from which they are counted.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// The interface on which packets were dropped, if it is known, and the cause.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DropPlace {
    pub(crate) dev: Option<String>,
    pub(crate) cause: String,
}

/// Counts of dropped packets.
pub(crate) type DropCounts = BTreeMap<DropPlace, u64>;

/// The increase of each count since `earlier`.
pub(crate) fn since(counts: &DropCounts, earlier: &DropCounts) -> DropCounts {
    let before = |place: &DropPlace| earlier.get(place).copied().unwrap_or_default();
    let grown = |(place, count): (&DropPlace, &u64)| {
        let more = count.saturating_sub(before(place));
        (more > 0).then(|| (place.clone(), more))
    };
    counts.iter().filter_map(grown).collect()
}

/// The counts at the last reset.
#[derive(Clone, Debug, Default)]
pub(crate) struct DropBaseline(Arc<Mutex<Option<Baseline>>>);

#[derive(Debug)]
struct Baseline {
    counts: DropCounts,
    at: Instant,
}

impl DropBaseline {
    /// The counts since the last reset, and how many seconds ago that reset was (`None` if there
    /// was none). `count` returns the present counts, or `None` if the counts no longer exist. With
    /// `resets`, the next call counts from the present counts on, so each packet is in exactly one
    /// of the answers that reset.
    pub(crate) fn take(
        &self,
        count: impl FnOnce() -> Option<DropCounts>,
        resets: bool,
    ) -> Option<(DropCounts, Option<u64>)> {
        // A poisoned lock can be ignored: a baseline is replaced as a whole. The lock is taken
        // before the counts are read. Otherwise another thread could reset in between, and this
        // thread would undo that reset with older counts.
        let mut baseline = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = count()?;
        let none = DropCounts::new();
        let earlier = baseline.as_ref().map_or(&none, |of| &of.counts);
        let (grown, age) = (since(&counts, earlier), baseline.as_ref().map(|of| of.at.elapsed()));
        if resets {
            *baseline = Some(Baseline { counts, at: Instant::now() });
        }
        Some((grown, age.map(|age| age.as_secs())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(list: &[(&str, u64)]) -> DropCounts {
        let place = |cause: &str| DropPlace { dev: None, cause: cause.to_owned() };
        list.iter().map(|(cause, count)| (place(cause), *count)).collect()
    }

    #[test]
    fn each_dropped_packet_is_in_one_answer_when_all_reset() {
        let baseline = DropBaseline::default();
        let take =
            |counts: &DropCounts, resets| baseline.take(|| Some(counts.clone()), resets).unwrap();
        let (first, age) = take(&counts(&[("ttl", 3)]), true);
        assert_eq!((first, age), (counts(&[("ttl", 3)]), None));
        let later = counts(&[("ttl", 3), ("rules", 2)]);
        let (shown, age) = take(&later, false);
        assert_eq!((shown.clone(), age.is_some()), (counts(&[("rules", 2)]), true));
        assert_eq!(take(&later, true).0, shown, "it was only looked at");
        assert!(take(&later, true).0.is_empty());
    }
}
