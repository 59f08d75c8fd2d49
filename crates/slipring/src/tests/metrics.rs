//! Tests that every command has `--metrics`, or says why not.

use crate::VERBS;

#[test]
fn every_command_has_metrics_or_says_why_it_needs_none() {
    for verb in VERBS {
        let has_flag = (verb.command)().get_arguments().any(|arg| arg.get_id() == "metrics");
        assert_eq!(has_flag, verb.no_metrics.is_none(), "{}: {:?}", verb.name, verb.no_metrics);
    }
}
