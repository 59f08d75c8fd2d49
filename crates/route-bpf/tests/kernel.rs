//! smoke
#![allow(clippy::unwrap_used)]
use slipring_route_bpf::*;
use slipring_fib::PortIndex;

#[test]
fn loads() {
    let router = BpfRouter::create(BpfLimits::default(), 1).unwrap();
    for is_software in [false, true] {
        match router.attach(1, PortIndex(0), AttachOptions { mode: ResidentMode::Generic, is_software }) {
            Ok(_) => {}
            Err(ResidentError::Bpf(slipring_bpf::BpfError::Rejected { log, .. })) => panic!("{}", &log[log.len().saturating_sub(6000)..]),
            Err(error) => panic!("{error:?}"),
        }
    }
}
