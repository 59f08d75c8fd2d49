//! Any bytes are passed to the functions for frames: views, summaries, checksum completion and
//! segmentation must not panic, and segmentation must not add payload.
#![no_main]

use libfuzzer_sys::fuzz_target;
use slipring_wire::Headers;
use slipring_wire::offload::{
    Gso, GsoKind, VnetForm, VnetHeader, complete_at, complete_partial, segment,
};
use slipring_wire::summary::{Conversations, Detail, HexDump, Summary};

fuzz_target!(|data: &[u8]| {
    let Some((&[kind, size_low, size_high], frame)) = data.split_first_chunk() else { return };
    look(frame);
    for form in [VnetForm::Short, VnetForm::Mergeable] {
        if let Ok(header) = VnetHeader::parse(frame, form) {
            let _ = (header.gso(), header.encode());
        }
    }
    let mut completed = frame.to_vec();
    complete_partial(&mut completed);
    let _ = complete_at(&mut completed, u16::from(kind), u16::from(size_low));
    assert_eq!(completed.len(), frame.len());
    let kind = [GsoKind::Tcp4, GsoKind::Tcp6, GsoKind::Udp][usize::from(kind) % 3];
    cut(frame, Gso { kind, size: u16::from_le_bytes([size_low, size_high]) });
});

fn look(frame: &[u8]) {
    for headers in [Headers::parse(frame), Headers::link(frame)].into_iter().flatten() {
        assert!(headers.tags_found().len() <= frame.len() / 4);
        let _ = headers.ports(frame);
        if let Some(bytes) = headers.ip.and_then(|ip| ip.l4_bytes(frame)) {
            assert_eq!(Some(bytes.len()), headers.ip.map(|ip| ip.l4_len() as usize));
        }
    }
    let mut conversations = Conversations::default();
    for verbose in 0..4 {
        let detail = Detail { verbose, bytes_follow: verbose % 2 == 0, ..Detail::default() };
        let summary = Summary::new(frame).with_wire_len(frame.len() + 1).with_detail(detail);
        for link in [false, true] {
            let written = summary.write(link, Some(&mut conversations));
            assert!(written.link_len <= frame.len());
            assert!(written.text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t' | b'\n')));
        }
    }
    let quick = Detail { is_quick: true, ..Detail::default() };
    drop(Summary::new(frame).with_detail(quick).to_string());
    drop(HexDump(frame).to_string());
}

fn cut(frame: &[u8], gso: Gso) {
    let mut payloads = 0;
    let mut segments = 0;
    let count = segment(frame, gso, |header, payload| {
        assert!(payload.len() <= usize::from(gso.size));
        look(&[header, payload].concat());
        payloads += payload.len();
        segments += 1;
    });
    if let Ok(count) = count {
        assert_eq!(count, segments);
        assert!(payloads <= frame.len());
    }
}
