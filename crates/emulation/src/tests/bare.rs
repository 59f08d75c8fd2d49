//! Numbers without a unit: what TLEM took them for holds under its name, and nowhere else.

use slipring_cli::Diagnose as _;
use slipring_cli::Diagnostic;
use slipring_link::DelayModel;

use super::{plan, plan_by, told};
use crate::{Plan, flags};

/// Plans a command line of `slipring emulate`.
fn own(args: &str) -> Result<Plan, Box<Diagnostic>> {
    let args = format!("--virtual a b {args}");
    plan_by(flags::command(), &args.split_ascii_whitespace().collect::<Vec<_>>())
}

fn classic(args: &str) -> Result<Plan, Box<Diagnostic>> {
    plan(&format!("--virtual a b {args}"))
}

#[test]
fn a_bare_delay_rate_or_loss_is_refused_with_both_readings() {
    for (args, readings) in [
        ("-D 20", "20s or 20ms"),
        ("--delay 1.5", "1.5s or 1.5ms"),
        ("-D normal,20,3ms", "20s or 20ms"),
        ("--up delay=20", "20s or 20ms"),
        ("-B 1", "1bit or 1Mbit"),
        ("--rate ether,10", "10bit or 10Mbit"),
        ("-L 1", "1% or 100%"),
        ("--loss 0.1", "0.1% or 10%"),
        ("--loss .05", "0.05% or 5%"),
        ("--loss 0.125", "0.125% or 12.5%"),
        ("--duplicate 0.01", "0.01% or 1%"),
        ("-R 0.5,2ms", "0.5% or 50%"),
        ("-M 1", "1s or 1ms"),
    ] {
        let error = own(args).err().unwrap_or_else(|| panic!("{args} was accepted"));
        assert_eq!(error.code().to_string(), "SR0007", "{args}");
        let text = told(&error);
        assert!(text.contains(&format!("it could be {readings}")), "{args}: {text}");
        assert!(text.ends_with(&format!("write {readings}")), "{args}: {text}");
    }
}

#[test]
fn a_number_with_one_reading_is_accepted() {
    for args in [
        "-D 0",
        "-B 0",
        "-L 0",
        "-L 1%",
        "-L 1e-3",
        "-L plr,0.001",
        "-L p=0.001",
        "-L ge,0.01,0.3",
        "--corrupt 0.001",
        "-D 20m",
        "-B 10m",
        "-Q 50000",
    ] {
        assert!(own(args).is_ok(), "{args}: {}", told(&own(args).unwrap_err()));
    }
}

#[test]
fn tlem_keeps_its_own_reading_of_bare_numbers() {
    let plan = classic("-D 20 -B 1000 -L 0.1").unwrap();
    assert_eq!(plan.network.links[0].spec.delay.model, DelayModel::Constant(20_000_000_000));
}

#[test]
fn a_k_of_a_queue_is_1000_bytes_except_under_the_name_of_tlem() {
    let bytes = |plan: Plan| format!("{:?}", plan.network.links[0].spec.queue);
    assert!(bytes(own("-Q 64k").unwrap()).contains("64000"));
    assert!(bytes(own("-Q 64KiB").unwrap()).contains("65536"));
    assert!(bytes(classic("-Q 64k").unwrap()).contains("65536"));
}
