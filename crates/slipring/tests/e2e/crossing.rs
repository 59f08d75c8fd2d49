//! Tests that every frame that enters the bridge on one side leaves on the other side whole, once,
//! and in order.

use slipring_bpf::insn::{BpfHelper, BpfReg, call, exit, mov_imm};
use slipring_bpf::{
    BpfAttachType, BpfLink, BpfLinkFlags, BpfProgram, BpfProgramFlags, BpfProgramKind,
};
use slipring_port::iface::Iface;
use slipring_test_support::frames::{assert_same, numbered};
use slipring_test_support::{Lab, LabPort, Namespace, installed};

use crate::support::bridge::Bridge;
use crate::support::frames::cross;
use crate::support::witness::CaptureProbe;

const FRAMES: u32 = 1600;

/// Sends numbered frames in both directions, with tcpdump on each side.
fn frames_cross(port: LabPort, words: &str) {
    let Some(lab) = Lab::quiet(port) else { return };
    if !installed("tcpdump") {
        return;
    }
    let bridge = Bridge::between(&lab, words);
    for (from, to, first) in [(&lab.left, &lab.right, 0), (&lab.right, &lab.left, FRAMES)] {
        let sent: Vec<_> = (first..first + FRAMES).map(numbered).collect();
        let (before, after) = (CaptureProbe::start(from, "e0"), CaptureProbe::start(to, "e0"));
        let arrived = cross(from, to, &sent);
        assert_same("arrived", &arrived, &sent);
        assert_same("seen before the bridge", &before.testify(sent.len()), &sent);
        assert_same("seen behind the bridge", &after.testify(sent.len()), &sent);
    }
    let report = bridge.stop();
    report.balanced().lossless();
    assert_eq!((report.rx(0), report.rx(1)), (FRAMES.into(), FRAMES.into()), "{report:?}");
}

#[test]
fn every_frame_crosses_xdp_native_whole_and_in_order() {
    frames_cross(LabPort::Native, "");
}

#[test]
fn every_frame_crosses_xdp_generic_whole_and_in_order() {
    frames_cross(LabPort::Generic, "");
}

#[test]
fn every_frame_crosses_packet_ports_whole_and_in_order() {
    frames_cross(LabPort::Packet, "");
}

#[test]
fn every_frame_crosses_taps_whole_and_in_order() {
    frames_cross(LabPort::Tap, "");
}

#[test]
fn every_frame_crosses_the_best_ports_whole_and_in_order() {
    frames_cross(LabPort::Best, "");
}

#[test]
fn every_frame_crosses_by_copy_as_by_exchange() {
    frames_cross(LabPort::Native, "--copy");
    frames_cross(LabPort::Packet, "--copy");
}

#[test]
fn the_report_names_the_mode_that_was_asked_for() {
    for (lab_port, kind, mode) in [
        (LabPort::Native, "xdp", "native"),
        (LabPort::Generic, "xdp", "generic"),
        (LabPort::Best, "xdp", "native"),
    ] {
        let Some(lab) = Lab::quiet(lab_port) else { return };
        let bridge = Bridge::between(&lab, "");
        let report = bridge.start_report();
        for port in [0, 1] {
            assert_eq!((report.setting(port, "kind"), report.setting(port, "mode")), (kind, mode));
        }
    }
}

/// Makes the network stack of a side add a VLAN tag to all frames that it sends, until the returned
/// link is dropped. As for a VLAN device, the kernel keeps the tag in metadata, and not in the
/// frame, until the frame reaches a wire.
fn push_tags(side: &Namespace, tag: i32) -> BpfLink {
    side.run(move || {
        let push = [
            mov_imm(BpfReg::R2, 0x8100u16.to_be().into()),
            mov_imm(BpfReg::R3, tag),
            call(BpfHelper::SkbVlanPush),
            mov_imm(BpfReg::R0, -1),
            exit(),
        ];
        let flags = BpfProgramFlags::default();
        let program =
            BpfProgram::load(BpfProgramKind::Classifier, "push_tag", &push, flags).unwrap();
        let ifindex = Iface::find("e0").unwrap().index;
        program.attach(ifindex, BpfAttachType::TcxEgress, BpfLinkFlags::Last).unwrap()
    })
}

#[test]
fn tags_that_the_kernel_keeps_beside_frames_cross_in_the_frames() {
    for port in [LabPort::Native, LabPort::Packet, LabPort::Tap, LabPort::Best] {
        let Some(lab) = Lab::quiet(port) else { return };
        let bridge = Bridge::between(&lab, "");
        let _tagging = push_tags(&lab.left, 0x6007);
        let sent: Vec<_> = (0..200).map(numbered).filter(|frame| frame.len() <= 1510).collect();
        let tagged = |frame: &Vec<u8>| [&frame[..12], &[0x81, 0, 0x60, 7], &frame[12..]].concat();
        let arrived = cross(&lab.left, &lab.right, &sent);
        assert_same("arrived", &arrived, &sent.iter().map(tagged).collect::<Vec<_>>());
        bridge.stop().balanced().lossless();
    }
}
