use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

const LANE: LifetimeClass = LifetimeClass(0);
/// Number of frames of maximum length that fit into a chunk.
const PER_CHUNK: usize = CHUNK_BYTES / (MAX_FRAME_BYTES + HEADER_ALIGN);

impl EmulationStore {
    fn put_bytes(
        &mut self,
        class: LifetimeClass,
        arrival_ns: u64,
        bytes: &[u8],
    ) -> Option<FrameHandle> {
        self.set_time(arrival_ns);
        let mut bursts = Vec::new();
        let mut loader = self.load(class, &mut bursts);
        let stored = loader.put(arrival_ns, bytes);
        loader.end();
        assert_eq!(bursts.len(), usize::from(stored));
        bursts.first().map(|burst| burst.handle)
    }

    fn bytes(&mut self, handle: FrameHandle) -> Vec<u8> {
        self.get(handle).bytes.to_vec()
    }
}

#[test]
fn a_frame_is_what_was_stored_with_the_time_it_came() {
    let mut store = EmulationStore::new(1 << 30);
    for len in [1, 14, 60, 64, 1500, 9000, MAX_FRAME_BYTES] {
        let frame: Vec<_> = (0..len).map(|i| i as u8).collect();
        let handle = store.put_bytes(LANE, len as u64 * 1000, &frame).unwrap();
        assert_eq!(store.bytes(handle), frame);
        assert_eq!(store.get(handle).arrival_ns, len as u64 * 1000);
    }
}

#[test]
fn frames_of_every_length_are_copied_whole_and_nothing_beside_them() {
    for len in 1..300 {
        let from: Vec<_> = (0..len).map(|i| i as u8 | 1).collect();
        let mut to = vec![0; len + 2];
        copy_frame(&mut to[1..=len], &from);
        assert_eq!((to[0], &to[1..=len], to[len + 1]), (0, &from[..], 0));
    }
}

#[test]
fn a_copy_is_known_as_one_and_a_frame_that_is_freed_is_gone() {
    let mut store = EmulationStore::new(1 << 30);
    let frame = store.put_bytes(LANE, 7, &[3; 100]).unwrap();
    let copy = store.copy(frame).unwrap();
    assert_eq!([frame, copy].map(|handle| store.get(handle).is_copy), [false, true]);
    assert_eq!([frame, copy].map(|handle| store.bytes(handle)), [[3; 100], [3; 100]]);
    [frame, copy].into_iter().for_each(|handle| store.free(handle));
    assert_eq!(store.put_bytes(LANE, 9, &[4; 60]), Some(frame), "the chunk begins anew");
}

#[test]
fn no_frame_is_empty_or_longer_than_the_longest() {
    let mut store = EmulationStore::new(1 << 30);
    assert_eq!(store.put_bytes(LANE, 0, &[]), None);
    assert_eq!(store.put_bytes(LANE, 0, &vec![0; MAX_FRAME_BYTES + 1]), None);
    assert_eq!(store.memory_bytes(), 0);
}

#[test]
fn a_batch_is_as_many_trains_as_it_takes_chunks() {
    let mut store = EmulationStore::new(1 << 30);
    let lens: Vec<usize> = (0..500).map(|i| 1 + i * 13 % 1500).collect();
    store.set_time(10_000);
    let mut bursts = Vec::new();
    let mut loader = store.load(LANE, &mut bursts);
    let frames: Vec<_> = lens.iter().map(|&len| vec![len as u8; len]).collect();
    let mut rest = (1_000..).zip(frames.iter().map(Vec::as_slice));
    while let Some((at_ns, frame)) = loader.put_all(rest.by_ref().take(frames.len())) {
        assert!(loader.put(at_ns, frame), "in the next chunk");
    }
    assert!(!loader.put(9_999, &[]) && !loader.put(9_999, &vec![0; MAX_FRAME_BYTES + 1]));
    loader.end();

    assert_eq!(bursts.len(), 2);
    let found: Vec<_> = bursts.iter().flat_map(|burst| store.frames(burst)).collect();
    let bytes: Vec<_> = found.iter().map(|(_, bytes)| bytes.to_vec()).collect();
    assert_eq!(bytes, frames);
    let times: Vec<_> = found.iter().map(|(head, _)| head.arrival_ns(10_000)).collect();
    assert_eq!(times, (1_000..1_500).collect::<Vec<_>>());
    assert_eq!(bursts.iter().map(|burst| burst.packets).sum::<u32>(), 500);
    assert_eq!(
        bursts.iter().map(|burst| burst.bytes).sum::<u64>(),
        lens.iter().sum::<usize>() as u64
    );
    assert_eq!([bursts[0].first_ns, bursts[1].last_ns], [1_000, 1_499]);

    let last = bursts[1];
    let front = store.take_front(&mut bursts[1], 3);
    assert_eq!((front.first_ns, bursts[1].packets), (last.first_ns, last.packets - 3));
    assert_eq!((front.last_ns + 1, bursts[1].first_ns), (last.first_ns + 3, last.first_ns + 3));
    assert_eq!(front.bytes + bursts[1].bytes, last.bytes);
    assert_eq!(store.burst_item(bursts[1].handle).frame.arrival_ns, bursts[1].first_ns);
    [bursts[0], front, bursts[1]].iter().for_each(|burst| store.free_burst(burst));
    assert_eq!(
        store.put_bytes(LANE, 20_000, &[0; 60]).map(header_offset),
        Some(0),
        "all was freed"
    );
}

#[test]
fn the_handle_after_the_last_frame_of_a_chunk_leads_to_no_other_frame() {
    type Put = fn(&mut EmulationStore, &[u8]) -> Option<FrameHandle>;
    let put_one: Put = |store, frame| store.put(LANE, 0, frame).map(|burst| burst.handle);
    let put_batch: Put = |store, frame| store.put_bytes(LANE, 0, frame);
    for (put, left) in [put_one, put_batch].into_iter().flat_map(|put| [(put, 0), (put, 1)]) {
        let mut store = EmulationStore::new(2 * CHUNK_BYTES as u64);
        // The frames up to `last` fill the chunk except for `left * HEADER_ALIGN` bytes.
        let frame = [7; 1024 - HEADER_ALIGN];
        (1..CHUNK_BYTES / 1024).for_each(|_| _ = put(&mut store, &frame).unwrap());
        let frame = &frame[left * HEADER_ALIGN..];
        let last = put(&mut store, frame).unwrap();
        let first = put(&mut store, &[8; 60]).unwrap();
        let behind = after(last, frame.len() as u32);
        assert_eq!(behind.0 >> OFFSET_BITS, last.0 >> OFFSET_BITS, "the chunk is the same");
        assert_eq!((store.bytes(last), store.bytes(first)), (frame.to_vec(), vec![8; 60]));
    }
}

#[test]
fn frames_are_refused_beyond_the_limit_and_taken_again_below_it() {
    let mut store = EmulationStore::new(2 * CHUNK_BYTES as u64);
    let frame = [7; 1024];
    let handles: Vec<_> = std::iter::from_fn(|| store.put_bytes(LANE, 0, &frame)).collect();
    assert_eq!(handles.len(), 2 * (CHUNK_BYTES / (1024 + HEADER_ALIGN)));
    assert_eq!(store.memory_bytes(), 2 * CHUNK_BYTES as u64);
    for handle in &handles[..CHUNK_BYTES / (1024 + HEADER_ALIGN)] {
        store.free(*handle);
    }
    assert!(store.put_bytes(LANE, 0, &frame).is_some());
}

#[test]
fn memory_freed_last_is_filled_first() {
    let mut store = EmulationStore::new(1 << 30);
    let frame = [0; MAX_FRAME_BYTES];
    let chunks: Vec<Vec<FrameHandle>> = (0..4)
        .map(|_| (0..PER_CHUNK).map(|_| store.put_bytes(LANE, 0, &frame).unwrap()).collect())
        .collect();
    for handles in [&chunks[2], &chunks[0]] {
        handles.iter().for_each(|&handle| store.free(handle));
    }
    let next = store.put_bytes(LANE, 0, &frame).unwrap();
    assert_eq!(next.0 >> OFFSET_BITS, chunks[0][0].0 >> OFFSET_BITS);
}

#[test]
fn a_steady_flow_needs_no_more_than_what_is_in_flight() {
    let mut store = EmulationStore::new(1 << 40);
    let mut line = std::collections::VecDeque::new();
    for i in 0..400_000u64 {
        line.push_back(store.put_bytes(LANE, i, &[i as u8; 64]).unwrap());
        if line.len() > 100_000 {
            store.free(line.pop_front().unwrap());
        }
    }
    let in_flight = 100_000 * (64 + HEADER_ALIGN as u64);
    assert!(store.memory_bytes() <= in_flight + 2 * CHUNK_BYTES as u64, "{}", store.memory_bytes());
}

#[test]
fn an_empty_store_begins_again_where_it_is_warm() {
    let mut store = EmulationStore::new(1 << 30);
    let first = store.put_bytes(LANE, 0, &[1; 64]).unwrap();
    store.free(first);
    assert_eq!(store.put_bytes(LANE, 5, &[1; 64]), Some(first));
}

/// Fills `chunks` chunks and empties them.
fn fill(store: &mut EmulationStore, chunks: usize, at_ns: u64) {
    let frame = [0; MAX_FRAME_BYTES];
    let handles: Vec<_> =
        (0..chunks * PER_CHUNK).map(|_| store.put_bytes(LANE, at_ns, &frame).unwrap()).collect();
    handles.into_iter().for_each(|handle| store.free(handle));
}

#[test]
fn memory_of_a_burst_is_given_back_after_a_while() {
    let mut store = EmulationStore::new(1 << 40);
    fill(&mut store, 3 * MAX_SPARE_CHUNKS, 0);
    assert_eq!(store.memory_bytes(), (3 * MAX_SPARE_CHUNKS * CHUNK_BYTES) as u64);
    store.set_time(TRIM_AFTER_NS);
    store.set_time(2 * TRIM_AFTER_NS);
    assert_eq!(store.memory_bytes(), ((MAX_SPARE_CHUNKS + 1) * CHUNK_BYTES) as u64);
    fill(&mut store, 3 * MAX_SPARE_CHUNKS, 2 * TRIM_AFTER_NS);
}

#[test]
fn memory_that_is_needed_again_and_again_is_kept() {
    let mut store = EmulationStore::new(1 << 40);
    for round in 0..10 {
        fill(&mut store, 2 * MAX_SPARE_CHUNKS, round * TRIM_AFTER_NS);
        assert_eq!(
            store.memory_bytes(),
            (2 * MAX_SPARE_CHUNKS * CHUNK_BYTES) as u64,
            "round {round}"
        );
        store.set_time(round * TRIM_AFTER_NS + TRIM_AFTER_NS / 2);
    }
}

#[test]
fn slow_frames_do_not_hold_the_memory_of_fast_ones() {
    let (fast, slow) = (LifetimeClass::number(0), LifetimeClass::number(1));
    let mut store = EmulationStore::new(1 << 40);
    let mut slow_bytes = 0;
    for i in 0..200_000u64 {
        let frame = store.put_bytes(fast, i, &[0; 1500]).unwrap();
        if i % 100 == 0 {
            store.put_bytes(slow, i, &[0; 1500]).unwrap();
            slow_bytes += 1504 + HEADER_ALIGN as u64;
        }
        store.free(frame);
    }
    assert!(store.memory_bytes() <= slow_bytes + 2 * CHUNK_BYTES as u64);
}

#[test]
fn arrival_times_are_kept_over_hours_and_out_of_order() {
    let mut store = EmulationStore::new(1 << 40);
    let times = [5_000_000_000_000, 5, 9_000_000_000, 8_999_999_999, u64::from(u32::MAX)];
    let handles = times.map(|time| store.put_bytes(LANE, time, &[0; 60]).unwrap());
    assert_eq!(handles.map(|handle| store.get(handle).arrival_ns), times);
}

#[derive(Debug, Clone)]
enum Step {
    Put { class: u8, len: usize },
    Copy(usize),
    Mark(usize),
    Free(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let len = prop_oneof![4 => 1..200usize, 2 => 200..2000usize, 1 => 2000..=MAX_FRAME_BYTES];
    prop_oneof![
        4 => (0..3u8, len).prop_map(|(class, len)| Step::Put { class, len }),
        1 => any::<usize>().prop_map(Step::Copy),
        1 => any::<usize>().prop_map(Step::Mark),
        3 => any::<usize>().prop_map(Step::Free),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Frames may be stored, copied, changed in place and freed in any order: every frame is found
    /// as in a map, and no two frames share a byte.
    #[test]
    fn it_behaves_like_a_map(steps in proptest::collection::vec(step(), 1..600)) {
        let mut store = EmulationStore::new(8 * CHUNK_BYTES as u64);
        let mut model: HashMap<u32, (Vec<u8>, u64)> = HashMap::new();
        let mut order: Vec<u32> = Vec::new();
        for (i, step) in steps.into_iter().enumerate() {
            let time = i as u64 * 40_000_000;
            match step {
                Step::Put { class, len } => {
                    let frame = vec![i as u8; len];
                    if let Some(handle) = store.put_bytes(LifetimeClass(class), time, &frame) {
                        prop_assert!(model.insert(handle.0, (frame, time)).is_none());
                        order.push(handle.0);
                    }
                }
                Step::Copy(which) if !order.is_empty() => {
                    let from = order[which % order.len()];
                    if let Some(handle) = store.copy(FrameHandle(from)) {
                        let frame = model[&from].clone();
                        prop_assert!(model.insert(handle.0, frame).is_none());
                        order.push(handle.0);
                    }
                }
                Step::Mark(which) if !order.is_empty() => {
                    let handle = order[which % order.len()];
                    store.get(FrameHandle(handle)).bytes[0] ^= 0xff;
                    model.get_mut(&handle).unwrap().0[0] ^= 0xff;
                }
                Step::Free(which) if !order.is_empty() => {
                    let handle = order.swap_remove(which % order.len());
                    store.free(FrameHandle(handle));
                    model.remove(&handle);
                }
                _ => {}
            }
        }
        for (handle, (frame, time)) in model {
            let stored = store.get(FrameHandle(handle));
            prop_assert_eq!(&stored.bytes[..], &frame[..]);
            prop_assert_eq!(stored.arrival_ns, time);
        }
        prop_assert!(store.memory_bytes() <= 8 * CHUNK_BYTES as u64);
    }
}
