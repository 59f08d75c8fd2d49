//! Tests that the raw loops, to which benchmarks compare the safe interface, pass all frames in
//! order.
#![allow(clippy::unwrap_used)]

use slipring_ring::raw::pipe;

#[test]
fn frames_of_the_raw_loops_arrive_in_order_and_none_twice() {
    const ROOM: u32 = 7;
    let (mut writer, mut reader) = pipe(ROOM + 1).unwrap();
    let (mut sent, mut received, mut freed) = (0u64, 0u64, 0u64);
    for (max_sent, max_received) in
        [(3, 9), (9, 2), (9, 0), (0, 9), (2, 1), (1, 1), (9, 9)].repeat(9)
    {
        let free = ROOM - (sent - freed) as u32;
        let filled = writer.step(max_sent, || {
            sent += 1;
            [sent; 8]
        });
        assert_eq!(filled.unwrap(), free.min(max_sent));
        let there = (sent - received) as u32;
        let before = received;
        let drained = reader.step(max_received, |frame| {
            received += 1;
            assert_eq!(frame, [received; 8]);
        });
        assert_eq!(drained.unwrap(), there.min(max_received));
        // The reader's next sync returns the slots that it has read; the writer sees them at its
        // sync after that.
        reader.step(0, |_| unreachable!("none was asked for")).unwrap();
        writer.step(0, || unreachable!("none was asked for")).unwrap();
        freed = before + u64::from(there.min(max_received));
    }
    assert!(sent > 8 * u64::from(ROOM));
}
