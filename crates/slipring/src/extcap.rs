//! `slipring extcap`: Wireshark's way to slipring's ports. The work is `slipring-dump`'s; here it
//! learns what there is.

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
