//! `slipring extcap`: Wireshark's access to slipring's ports. `slipring-dump` does the work; this
//! module lists the ports.

use clap::ArgMatches;
use slipring_cli::{Failure, Job, Verb};

use crate::dump;

pub(crate) const VERB: Verb = Verb {
    name: "extcap",
    classic: &[],
    command: slipring_dump::extcap::command,
    plan,
    no_metrics: Some("is started by Wireshark, whose flags these are"),
};

fn plan(matches: &ArgMatches) -> Result<Job, Failure> {
    slipring_dump::extcap::plan(matches, dump::interfaces)
}
