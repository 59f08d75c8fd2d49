//! Tests that listings are identical to ipfw's.

use std::string::String;

use super::*;
use crate::flow::ShaperFlowKey;
use crate::text::DummynetCommand;
use crate::{Dummynet, ObjectKind, ShaperPacket, ShaperTarget};

fn protocol(number: u8) -> Option<&'static str> {
    match number {
        0 => Some("ip"),
        6 => Some("tcp"),
        17 => Some("udp"),
        58 => Some("ipv6-icmp"),
        _ => None,
    }
}

fn engine(text: &str) -> Dummynet<u32> {
    let mut dummynet = Dummynet::new(1, [1, 2]);
    for line in text.lines() {
        let Ok(DummynetCommand::Config(config)) = DummynetCommand::parse(line.trim()) else {
            panic!("{line}")
        };
        dummynet.configure(0, config, &mut |_| {}).unwrap();
    }
    dummynet
}

fn send(dummynet: &mut Dummynet<u32>, object: ShaperTarget, key: &ShaperFlowKey, packets: u32) {
    for handle in 0..packets {
        let packet = ShaperPacket { handle, rule: 1, len: 96, ecn: Default::default() };
        dummynet.submit(0, object, key, packet, &mut |_| {});
    }
}

/// Removes the bucket numbers from a listing, because they depend on the hash function.
fn without_buckets(text: &str) -> String {
    let line = |line: &str| match line.get(..4) {
        Some(start) if line.len() > 60 && start[..3].trim().parse::<u8>().is_ok() => {
            std::format!("  #{}\n", &line[3..])
        }
        _ => std::format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

#[test]
fn a_pipe_shows_link_flowset_and_scheduler() {
    let mut dummynet = engine("pipe 1 config bw 10Mbit/s delay 20ms");
    assert_eq!(
        pipes(&dummynet.show_pipes(0), protocol),
        "00001:  10.000 Mbit/s   20 ms burst 0 \n\
         q131073  50 sl. 0 flows (1 buckets) sched 65537 weight 0 lmax 0 pri 0 droptail\n \
         sched 65537 type FIFO flags 0x0 0 buckets 0 active\n"
    );
}

#[test]
fn a_used_pipe_shows_a_row() {
    let mut dummynet = engine("pipe 2 config bw 1Mbit/s");
    send(&mut dummynet, ShaperTarget::Pipe(2), &ShaperFlowKey::default(), 4);
    assert_eq!(
        without_buckets(&pipes(&dummynet.show_pipes(0), protocol)),
        "00002:   1.000 Mbit/s    0 ms burst 0 \n\
         q131074  50 sl. 0 flows (1 buckets) sched 65538 weight 0 lmax 0 pri 0 droptail\n \
         sched 65538 type FIFO flags 0x0 0 buckets 1 active\n\
         BKT Prot ___Source IP/port____ ____Dest. IP/port____ Tot_pkt/bytes Pkt/Byte Drp\n  \
         # ip           0.0.0.0/0             0.0.0.0/0        4      384  3  288   0\n"
    );
}

#[test]
fn dynamic_pipes_show_their_mask_and_a_row_each() {
    let mut dummynet = engine("pipe 1 config mask src-ip 0x000000ff bw 200Kbit/s");
    for host in 1..=10 {
        let key = ShaperFlowKey { src: 0x0a00_0000 + host, ..ShaperFlowKey::default() };
        send(&mut dummynet, ShaperTarget::Pipe(1), &key, 1);
    }
    let text = pipes(&dummynet.show_pipes(0), protocol);
    let head = "00001: 200.000 Kbit/s    0 ms burst 0 \n\
         q131073  50 sl. 0 flows (1 buckets) sched 65537 weight 0 lmax 0 pri 0 droptail\n \
         sched 65537 type FIFO flags 0x1 64 buckets 10 active\n    \
         mask:  0x00 0x000000ff/0x0000 -> 0x00000000/0x0000\n\
         BKT Prot ___Source IP/port____ ____Dest. IP/port____ Tot_pkt/bytes Pkt/Byte Drp\n";
    assert!(text.starts_with(head), "{text}");
    assert_eq!(text.lines().count(), 5 + 10);
    assert!(
        text.contains(
            " ip           0.0.0.7/0             0.0.0.0/0        1       96  0    0   0\n"
        )
    );
}

#[test]
fn queues_show_weights_and_flows() {
    let mut dummynet = engine(
        "pipe 1 config bw 1Mbit/s
         queue 1 config pipe 1 weight 10 mask src-ip 0xff
         queue 2 config pipe 1 queue 50KBytes plr 0.1",
    );
    let key = ShaperFlowKey { proto: 6, src: 0x0a00_0001, ..ShaperFlowKey::default() };
    send(&mut dummynet, ShaperTarget::Queue(1), &key, 2);
    assert_eq!(
        without_buckets(&queues(&dummynet.show_queues(0), protocol)),
        "q00001  50 sl. 1 flows (64 buckets) sched 1 weight 10 lmax 0 pri 0 droptail\n    \
         mask:  0x00 0x000000ff/0x0000 -> 0x00000000/0x0000\n\
         BKT Prot ___Source IP/port____ ____Dest. IP/port____ Tot_pkt/bytes Pkt/Byte Drp\n  \
         # ip           0.0.0.1/0             0.0.0.0/0        2      192  1   96   0\n\
         q00002 50 KBplr 0.100000 0 flows (1 buckets) sched 1 weight 1 lmax 0 pri 0 droptail\n"
    );
    let text = scheds(&dummynet.show_scheds(0), protocol);
    let head = "00001:   1.000 Mbit/s    0 ms burst 0 \n \
         sched 1 type WF2Q+ flags 0x0 0 buckets 1 active\n   \
         Children flowsets: 1 2 \nBKT ";
    assert!(text.starts_with(head), "{text}");
}

#[test]
fn red_shows_its_numbers_as_they_are_kept() {
    let mut dummynet = engine("pipe 1 config bw 1Mbit/s red 0.002/30/80/0.1 ecn");
    let text = pipes(&dummynet.show_pipes(0), protocol);
    let red = "pri 0 \n\t  RED w_q 0.001999 min_th 30 max_th 80 max_p 0.099991 (ecn)\n";
    assert!(text.contains(red), "{text}");
    let mut dummynet = engine("queue 1 config pipe 1 gred 0.002/30/80/0.1");
    let text = queues(&dummynet.show_queues(0), protocol);
    assert!(text.contains("\n\t GRED w_q 0.001999 min_th"), "{text}");
}

#[test]
fn flow_queueing_shows_its_parameters() {
    let mut dummynet = engine(
        "pipe 1 config bw 900Mbit/s
         sched 1 config type fq_codel quantum 300 ecn
         queue 1 config sched 1 codel target 10ms
         pipe 2 config bw 2Gbit/s
         sched 2 config type fq_pie",
    );
    assert_eq!(
        scheds(&dummynet.show_scheds(0), protocol),
        "00001: 900.000 Mbit/s    0 ms burst 0 \n \
         sched 1 type FQ_CODEL flags 0x0 0 buckets 0 active\n \
         FQ_CODEL target 5ms interval 100ms quantum 300 limit 10240 flows 1024 ECN\n   \
         Children flowsets: 1 \n\
         00002:   2.000 Gbit/s    0 ms burst 0 \n \
         sched 2 type FQ_PIE flags 0x0 0 buckets 0 active\n  \
         FQ_PIE target 15ms tupdate 15ms alpha 0.125 beta 1.25 max_burst 150ms max_ecnth 0.1 \
         quantum 1514 limit 10240 flows 1024 NoECN CapDrop TS Derand\n"
    );
    assert_eq!(
        queues(&dummynet.show_queues(0), protocol),
        "q00001  50 sl. 0 flows (1 buckets) sched 1 weight 0 lmax 0 pri 0  \
         AQM CoDel target 10ms interval 100ms NoECN\n"
    );
}

#[test]
fn profiles_show_what_they_keep() {
    let file = "name x\nsamples 10\nloss-level 0.86\nprob delay\n0 200\n1 300\n";
    let file = slipring_model::format::DummynetProfile::parse(file).unwrap();
    let mut spec = crate::spec::PipeSpec::default();
    spec.load(&file);
    let mut dummynet = Dummynet::<u32>::new(1, [1, 2]);
    dummynet.configure(0, crate::ShaperConfig::Pipe(3, spec), &mut |_| {}).unwrap();
    let text = pipes(&dummynet.show_pipes(0), protocol);
    assert!(text.starts_with(
        "00003: unlimited         0 ms burst 0 \n\t profile: name \"x\" loss 0.800000 samples 10\n"
    ), "{text}");
}

#[test]
fn ipv6_masks_and_rows_have_their_own_form() {
    let mut dummynet = engine("pipe 1 config bw 1Mbit/s mask src-ip6 /64 flow-id 0xfffff");
    let src = "2001:db8:1:2:3:4:5:6".parse::<Ipv6Addr>().unwrap().into();
    let key = ShaperFlowKey {
        is_v6: true,
        proto: 6,
        flow_label: 0xbaad,
        src,
        ..ShaperFlowKey::default()
    };
    send(&mut dummynet, ShaperTarget::Pipe(1), &key, 1);
    let text = without_buckets(&pipes(&dummynet.show_pipes(0), protocol));
    let mask = "\n        mask: proto: 0x00, flow_id: 0x000fffff,  \
        ffff:ffff:ffff:ffff::/0x0000 -> ::/0x0000\n\
        BKT ___Prot___ _flow-id_ ______________Source IPv6/port_______________ \
        _______________Dest. IPv6/port_______________ Tot_pkt/bytes Pkt/Byte Drp\n  \
        #        ip   47789  %s/0      %s/0        1       96  0    0   0\n";
    let mask = mask.replacen("%s", &std::format!("{:>39}", "2001:db8:1:2::"), 1).replacen(
        "%s",
        &std::format!("{:>39}", "::"),
        1,
    );
    assert!(text.contains(&mask), "{text}");
}

#[test]
fn ranges_choose_what_is_shown() {
    let mut dummynet = engine(
        "pipe 1 config bw 1Mbit/s
         pipe 2 config bw 2Mbit/s
         pipe 30 config bw 3Mbit/s
         queue 30 config pipe 2",
    );
    let mut shown = |kind, ranges: &[core::ops::RangeInclusive<u16>]| {
        let text = dummynet.show(0, kind, ranges, RowOrder::default()).text(protocol);
        let heads = text.lines().filter(|line| !line.starts_with([' ', '\t']));
        heads.map(|line| String::from(&line[..6])).collect::<std::vec::Vec<_>>()
    };
    assert_eq!(shown(ObjectKind::Pipe, &[2..=29]), ["00002:", "q13107"]);
    assert_eq!(shown(ObjectKind::Sched, &[1..=1, 30..=30]), ["00001:", "00030:"]);
    assert_eq!(shown(ObjectKind::Queue, &[]), ["q00030"]);
    assert!(shown(ObjectKind::Queue, &[1..=2]).is_empty());
}
