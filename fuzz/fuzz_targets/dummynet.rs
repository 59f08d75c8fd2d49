//! Any text must parse to a command of the shaper, or give an error with a column in the text. A
//! printed command must parse to the same command. With any configuration, every packet must be
//! counted, and all packets must leave in a bounded number of calls of `release`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use slipring_dummynet::flow::ShaperFlowKey;
use slipring_dummynet::text::DummynetCommand;
use slipring_dummynet::{Dummynet, ShaperCounters, ShaperPacket, ShaperTarget};

fuzz_target!(|data: &[u8]| {
    let Some((&split, data)) = data.split_first() else { return };
    let (text, packets) = data.split_at(usize::from(split).min(data.len()));
    let Ok(text) = str::from_utf8(text) else { return };
    let mut dummynet = Dummynet::new(1, [1, 2]);
    text.lines().for_each(|line| carry_out(&mut dummynet, line));
    let mut now_ns = 0;
    for (handle, bytes) in (0u32..).zip(packets.chunks_exact(4)) {
        now_ns += u64::from(bytes[0]) << (bytes[1] & 31);
        let number = 1 + u16::from(bytes[1] >> 7);
        let object = if bytes[1] & 64 == 0 {
            ShaperTarget::Pipe(number)
        } else {
            ShaperTarget::Queue(number)
        };
        let key = ShaperFlowKey { src: (bytes[2] & 7).into(), ..ShaperFlowKey::default() };
        let len = 20 + (u32::from(bytes[3]) << 3);
        let packet = ShaperPacket { handle, rule: 1, len, ecn: Default::default() };
        dummynet.submit(now_ns, object, &key, packet, &mut |_| {});
        dummynet.release(now_ns, &mut |_| {});
        check(&dummynet.counters());
    }
    let mut turns = 0;
    while let Some(at_ns) = dummynet.next_release() {
        dummynet.release(at_ns, &mut |_| {});
        turns += 1;
        assert!(turns < 1000, "it never comes to rest");
    }
    let counters = dummynet.counters();
    check(&counters);
    assert_eq!((counters.queued, counters.delayed), (0, 0));
});

fn carry_out(dummynet: &mut Dummynet<u32>, line: &str) {
    match DummynetCommand::parse(line) {
        Ok(DummynetCommand::Config(config)) => {
            let written = config.to_string();
            let again = DummynetCommand::parse(&written);
            assert_eq!(again, Ok(DummynetCommand::Config(config.clone())), "{line}: {written}");
            // An error is allowed: a new queue may name a parent that does not exist.
            _ = dummynet.configure(0, config, &mut |_| {});
        }
        Ok(DummynetCommand::Delete(kind, ranges)) => {
            for range in ranges {
                _ = dummynet.delete(0, kind, range, &mut |_| {});
            }
        }
        Ok(DummynetCommand::Flush) => dummynet.flush(0, &mut |_| {}),
        Ok(
            DummynetCommand::Show(..)
            | DummynetCommand::ConfigWithProfile(..)
            | DummynetCommand::Sysctl(..),
        ) => {}
        Err(error) => assert!(error.column <= line.chars().count() + 1, "{line}: {error}"),
    }
}

fn check(counters: &ShaperCounters) {
    let ShaperCounters { received, released, drops, queued, delayed, .. } = *counters;
    assert_eq!(received, released + drops.total() + queued + delayed);
}
