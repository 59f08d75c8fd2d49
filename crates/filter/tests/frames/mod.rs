//! Frames of many protocols. Their addresses and labels, and most ports, have only a few values,
//! which the expressions also use, so that most expressions match some frames.

use proptest::prelude::*;

const ADDRESSES: [[u8; 4]; 7] = [
    [10, 0, 0, 1],
    [10, 0, 0, 2],
    [10, 1, 2, 3],
    [192, 168, 1, 7],
    [0, 0, 0, 10],
    [224, 0, 0, 251],
    [255, 255, 255, 255],
];
const PORTS: [u16; 8] = [22, 53, 80, 81, 443, 6000, 6005, 40000];
const MACS: [[u8; 6]; 4] =
    [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], [0xff; 6], [1, 0, 0x5e, 0, 0, 0xfb]];

fn address6(low: u8) -> [u8; 16] {
    let mut address = [0; 16];
    address[..4].copy_from_slice(&[0x20, 0x01, 0x0d, 0xb8]);
    address[15] = low;
    if low == 9 {
        address[0] = 0xff;
    }
    address
}

fn port() -> impl Strategy<Value = u16> {
    prop_oneof![4 => proptest::sample::select(PORTS.to_vec()), 1 => any::<u16>()]
}

fn payload() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 70..90)
}

/// A transport header with its protocol number.
fn transport() -> impl Strategy<Value = (u8, Vec<u8>)> {
    let numbers = vec![6, 6, 6, 17, 17, 132, 1, 2, 9, 50, 51, 58, 103, 112, 44, 4];
    let number = prop_oneof![8 => proptest::sample::select(numbers), 1 => any::<u8>()];
    (number, port(), port(), 0u8..16, payload()).prop_map(|(number, src, dst, kind, mut body)| {
        match number {
            1 => body[0] = kind,
            58 => body[0] = 126 + kind,
            _ => {
                body[..2].copy_from_slice(&src.to_be_bytes());
                body[2..4].copy_from_slice(&dst.to_be_bytes());
            }
        }
        (number, body)
    })
}

fn ipv4() -> impl Strategy<Value = Vec<u8>> {
    let address = || proptest::sample::select(ADDRESSES.to_vec());
    let fragment = prop_oneof![5 => Just(0u16), 1 => Just(0x2000), 1 => Just(0x00b9)];
    (address(), address(), fragment, 5u8..8, transport()).prop_map(
        |(src, dst, fragment, words, (number, body))| {
            let mut packet = vec![0u8; usize::from(words) * 4];
            packet[0] = 0x40 | words;
            let len = (packet.len() + body.len()) as u16;
            packet[2..4].copy_from_slice(&len.to_be_bytes());
            packet[6..8].copy_from_slice(&fragment.to_be_bytes());
            packet[8] = 64;
            packet[9] = number;
            packet[12..16].copy_from_slice(&src);
            packet[16..20].copy_from_slice(&dst);
            packet.extend(body);
            packet
        },
    )
}

fn ipv6() -> impl Strategy<Value = Vec<u8>> {
    let low = || proptest::sample::select(vec![1u8, 2, 9]);
    (low(), low(), any::<bool>(), transport()).prop_map(|(src, dst, fragment, (number, body))| {
        let mut packet = vec![0x60, 0, 0, 0, 0, body.len() as u8, number, 64];
        packet.extend(address6(src));
        packet.extend(address6(dst));
        if fragment {
            packet[6] = 44;
            packet.extend([number, 0, 0, 0, 0, 0, 0, 1]);
        }
        packet.extend(body);
        packet
    })
}

fn arp() -> impl Strategy<Value = Vec<u8>> {
    let address = || proptest::sample::select(ADDRESSES.to_vec());
    (address(), address(), 1u8..3).prop_map(|(src, dst, operation)| {
        let mut packet = vec![0, 1, 8, 0, 6, 4, 0, operation];
        packet.extend(MACS[0]);
        packet.extend(src);
        packet.extend(MACS[1]);
        packet.extend(dst);
        packet.resize(70, 0);
        packet
    })
}

/// Generates the type field and the payload of an Ethernet header or a VLAN tag.
fn network() -> BoxedStrategy<(u16, Vec<u8>)> {
    let other = proptest::sample::select(vec![
        0x6001, 0x6003, 0x6004, 0x6007, 0x809b, 0x80f3, 0x8137, 0x8863, 0x9000, 0x88cc,
    ]);
    prop_oneof![
        6 => ipv4().prop_map(|packet| (0x0800, packet)),
        4 => ipv6().prop_map(|packet| (0x86dd, packet)),
        2 => arp().prop_map(|packet| (0x0806, packet)),
        1 => arp().prop_map(|packet| (0x8035, packet)),
        1 => (other, payload()),
        2 => llc(),
        2 => mpls(),
        2 => pppoe(),
    ]
    .boxed()
}

fn llc() -> impl Strategy<Value = (u16, Vec<u8>)> {
    let starts: Vec<Vec<u8>> = vec![
        vec![0x42, 0x42, 3],
        vec![0xfe, 0xfe, 3],
        vec![0xf0, 0xf0, 3],
        vec![0xe0, 0xe0, 3],
        vec![0x06, 0x06, 3],
        vec![0xfe, 0x42, 3],
        vec![0xf0, 0xfe, 3],
        vec![0x06, 0xf0, 3],
        vec![0xff, 0xff, 0, 0],
        vec![0xaa, 0xaa, 3, 0, 0, 0, 0x81, 0x37],
        vec![0xaa, 0xaa, 3, 0, 0, 0, 0x80, 0xf3],
        vec![0xaa, 0xaa, 3, 8, 0, 7, 0x80, 0x9b],
    ];
    (proptest::sample::select(starts), payload()).prop_map(|(start, mut body)| {
        body[..start.len()].copy_from_slice(&start);
        (body.len() as u16, body)
    })
}

fn mpls() -> impl Strategy<Value = (u16, Vec<u8>)> {
    let label = proptest::sample::select(vec![16u32, 100, 1024]);
    let labels = proptest::collection::vec(label, 1..4);
    (labels, prop_oneof![ipv4().boxed(), ipv6().boxed()]).prop_map(|(labels, packet)| {
        let mut body = Vec::new();
        for (i, label) in labels.iter().enumerate() {
            let last = u32::from(i + 1 == labels.len());
            body.extend((label << 12 | last << 8 | 64).to_be_bytes());
        }
        body.extend(packet);
        (0x8847, body)
    })
}

fn pppoe() -> impl Strategy<Value = (u16, Vec<u8>)> {
    let inner = prop_oneof![
        ipv4().prop_map(|packet| (0x0021u16, packet)),
        ipv6().prop_map(|packet| (0x0057u16, packet)),
        payload().prop_map(|body| (0xc021u16, body)),
    ];
    (1u16..4, inner).prop_map(|(session, (protocol, packet))| {
        let mut body = vec![0x11, 0];
        body.extend(session.to_be_bytes());
        body.extend((packet.len() as u16 + 2).to_be_bytes());
        body.extend(protocol.to_be_bytes());
        body.extend(packet);
        (0x8864, body)
    })
}

/// Generates a whole frame. It is long enough for all headers that a filter can read.
pub(crate) fn frame() -> impl Strategy<Value = Vec<u8>> {
    let mac = || proptest::sample::select(MACS.to_vec());
    let tag = (
        proptest::sample::select(vec![0x8100u16, 0x8100, 0x88a8, 0x9100]),
        prop_oneof![Just(5u16), Just(6), Just(100), Just(0x2005)],
    );
    let tags = proptest::collection::vec(tag, 0..3);
    (mac(), mac(), tags, network()).prop_map(|(dst, src, tags, (kind, body))| {
        let mut frame = [dst, src].concat();
        for (kind, tag) in tags {
            frame.extend(kind.to_be_bytes());
            frame.extend(tag.to_be_bytes());
        }
        frame.extend(kind.to_be_bytes());
        frame.extend(body);
        frame.resize(frame.len().max(160), 0);
        frame
    })
}

/// Generates a frame that is truncated to fewer than 90 bytes.
pub(crate) fn short_frame() -> impl Strategy<Value = Vec<u8>> {
    (frame(), 0usize..90).prop_map(|(mut frame, len)| {
        frame.truncate(len);
        frame
    })
}
