//! Tests of rings over memory that a test fills as a device would.

use super::*;
use crate::fake::{Doorbell, memory, region};
use crate::intel::rings::{LegacyRx, LegacyTx};

const SIZE: u32 = 8;
const DONE: u64 = 1 << 32;
const END: u64 = 1 << 33;
const CRC_ERROR: u64 = 1 << 40;
const REPORT: u64 = 1 << 27;
const END_OF_FRAME: u64 = 1 << 24;

fn parts() -> (RingParts, Doorbell) {
    let mut memory = memory(&region(64));
    let doorbell = Doorbell::default();
    let parts = RingParts {
        memory: memory.alloc(4096).unwrap(),
        addresses: memory.addresses(),
        size: SIZE,
        usable: SIZE - 1,
        part: 2048,
        bar: Bar::new(64, Vec::new(), Box::new(doorbell.clone())),
        doorbell: 0,
    };
    (parts, doorbell)
}

#[test]
fn damaged_frames_and_impossible_lengths_are_dropped_and_their_buffers_posted_again() {
    let (parts, doorbell) = parts();
    let memory = parts.memory.clone();
    let fill = |at: usize, status| memory.words64()[2 * at + 1].store(status, Ordering::Relaxed);
    let mut ring = RxDescriptors::<LegacyRx>::new(parts);
    for buf in 10..16 {
        assert!(ring.has_room());
        ring.post(BufIdx(buf));
    }
    ring.publish();
    ring.publish();
    assert_eq!(*doorbell.0.lock().unwrap(), [6], "one write per batch");
    fill(0, 60 | DONE | END);
    // A frame of two parts, of which the first is damaged; then a length greater than the buffer.
    fill(1, 2048 | DONE | CRC_ERROR);
    fill(2, 100 | DONE | END);
    fill(3, 2049 | DONE | END);
    fill(4, 61 | DONE | END);
    assert_eq!(ring.refresh(), 2);
    let frames = [0, 1].map(|i| (ring.peek(i).buf.0, ring.peek(i).len, ring.peek(i).more));
    assert_eq!(frames, [(10, 60, false), (14, 61, false)]);
    assert_eq!(ring.bad_frames(), 2);
    ring.release(2);
    ring.publish();
    assert_eq!(*doorbell.0.lock().unwrap(), [6, 1], "three buffers, over the end of the ring");
    assert_eq!(ring.refresh(), 0);
}

#[test]
fn a_frame_of_more_parts_than_the_ring_has_is_dropped_and_the_next_one_arrives() {
    let (parts, doorbell) = parts();
    let memory = parts.memory.clone();
    let fill = |at: usize, status| memory.words64()[2 * at + 1].store(status, Ordering::Relaxed);
    let mut ring = RxDescriptors::<LegacyRx>::new(parts);
    for buf in 10..14 {
        ring.post(BufIdx(buf));
    }
    ring.publish();
    (0..4).for_each(|at| fill(at, 2048 | DONE));
    assert_eq!(ring.refresh(), 0);
    ring.publish();
    assert_eq!(doorbell.0.lock().unwrap().len(), 2, "the buffers are the device's again");
    fill(4, 100 | DONE | END);
    fill(5, 60 | DONE | END);
    assert_eq!(ring.refresh(), 1);
    assert_eq!((ring.peek(0).len, ring.bad_frames()), (60, 1));
}

#[test]
fn a_batch_reports_once_and_completes_as_a_whole() {
    let (parts, doorbell) = parts();
    let memory = parts.memory.clone();
    let status = |at: usize| memory.words64()[2 * at + 1].load(Ordering::Relaxed);
    let mut ring = TxDescriptors::<LegacyTx>::new(parts);
    for buf in 20..23 {
        ring.push(BufIdx(buf), 0, 60, false);
    }
    ring.publish();
    assert_eq!([0, 1, 2].map(|at| status(at) & REPORT), [0, 0, REPORT]);
    assert_eq!(*doorbell.0.lock().unwrap(), [3]);
    assert_eq!((ring.refresh_completed(), ring.is_pending()), (0, true));
    memory.words64()[5].store(status(2) | DONE, Ordering::Relaxed);
    assert_eq!(ring.refresh_completed(), 3);
    assert_eq!([0, 1, 2].map(|i| ring.peek_completed(i).0), [20, 21, 22]);
    ring.release_completed(3);
    assert!(ring.has_room(SIZE - 1) && !ring.has_room(SIZE) && !ring.is_pending());
}

#[test]
fn the_end_of_a_long_buffer_has_a_descriptor_of_its_own_because_it_lies_on_another_page() {
    let (parts, _doorbell) = parts();
    let part = 2048 - 256;
    let memory = parts.memory.clone();
    let word = |at: usize| memory.words64()[at].load(Ordering::Relaxed);
    let mut ring = TxDescriptors::<LegacyTx>::new(RingParts { part, ..parts });
    assert_eq!((ring.max_part(), ring.has_tail(BufIdx(21))), (part, true));
    ring.push(BufIdx(21), 0, part, true);
    ring.push_tail(BufIdx(21), 256, false);
    ring.publish();
    let pieces = [0, 1].map(|i| (word(2 * i), word(2 * i + 1) as u16 as u64));
    assert_eq!(pieces[1], (pieces[0].0 + u64::from(part), 256));
    for (address, len) in pieces {
        assert_eq!(address / 4096, (address + len - 1) / 4096, "{len} bytes on one page");
    }
    assert_eq!([0, 1].map(|i| word(2 * i + 1) & END_OF_FRAME != 0), [false, true]);
    memory.words64()[3].store(word(3) | DONE, Ordering::Relaxed);
    assert_eq!(ring.refresh_completed(), 2);
    assert_eq!([0, 1].map(|i| ring.peek_completed(i).0), [21, 21]);
}
