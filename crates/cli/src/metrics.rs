//! `--metrics ADDR`: counters of a long-running program, for Prometheus.
//!
//! ```text
//!   flag(command) --> Session::metrics --> serve(session, text): an endpoint until it is dropped
//! ```
//!
//! Every program that runs until it is stopped has the flag. Each program defines its metric
//! families; [`MetricsText`] writes them.

mod text;

use clap::{Arg, Command, ValueHint};
use slipring_control::metrics::MetricsEndpoint;

pub use text::{MetricHistogram, MetricValue, MetricsText, NO_LABELS};

use crate::{Diagnostic, Failure, Session, codes};

/// Adds the flag, unless the command already has a flag of that name.
#[must_use]
pub fn flag(command: Command) -> Command {
    let metrics = Arg::new(METRICS_FLAG)
        .long(METRICS_FLAG)
        .value_name("ADDR")
        .value_hint(ValueHint::FilePath)
        .value_parser(address)
        .help("Serve counters as OpenMetrics: 127.0.0.1:9100, or a socket's path");
    let has_one = command.get_arguments().any(|arg| arg.get_long() == Some(METRICS_FLAG));
    if has_one { command } else { command.arg(metrics) }
}

/// The flag's name.
pub(crate) const METRICS_FLAG: &str = "metrics";

/// Checks an address at which metrics can be served: one with a port, or a path.
///
/// # Errors
/// A text that says which addresses are allowed, if this is not one.
pub fn address(text: &str) -> Result<String, String> {
    let why = |why| format!("{why}: write 127.0.0.1:9100, [::1]:9100, or a path: ./metrics.sock");
    MetricsEndpoint::check(text).map_err(why).map(|()| text.to_owned())
}

/// The first TCP port that unprivileged processes may listen on.
pub const FIRST_FREE_PORT: u16 = 1024;

/// Whether serving at `address` requires CAP_NET_BIND_SERVICE.
#[must_use]
pub fn is_reserved(address: &str) -> bool {
    let port = address.rsplit_once(':').filter(|_| !address.contains('/'));
    let port = port.and_then(|(_, port)| port.parse().ok());
    port.is_some_and(|port| (1..FIRST_FREE_PORT).contains(&port))
}

/// Serves the text that `text` returns, if the flag was given.
///
/// # Errors
/// If it cannot listen at the address, for example because the address is in use.
pub fn serve(
    session: &Session<'_>,
    text: impl Fn() -> Result<String, String> + Send + 'static,
) -> Result<Option<MetricsEndpoint>, Failure> {
    session.metrics.as_deref().map(|address| open(address, text)).transpose()
}

/// Serves the text that `text` returns at `address`.
///
/// # Errors
/// If it cannot listen at the address, for example because the address is in use.
pub fn open(
    address: &str,
    text: impl Fn() -> Result<String, String> + Send + 'static,
) -> Result<MetricsEndpoint, Failure> {
    MetricsEndpoint::open(address, Box::new(text)).map_err(|error| {
        let summary = format!("cannot serve metrics on `{address}`");
        let help = "name a free port of this machine, 127.0.0.1:9100, or a path to be made";
        let error =
            Diagnostic::new(codes::SR0002, summary).with_cause(error.to_string()).with_help(help);
        error.into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_cannot_be_listened_on_is_refused_while_flags_are_read() {
        let parse =
            |text: &str| flag(Command::new("x")).try_get_matches_from(["x", "--metrics", text]);
        assert!(parse("127.0.0.1:0").is_ok() && parse("./x.sock").is_ok());
        let error = parse("9100").unwrap_err().to_string();
        assert!(error.contains("write 127.0.0.1:9100"), "{error}");
    }

    #[test]
    fn a_command_keeps_a_flag_of_its_own_of_that_name() {
        let command = Command::new("x").arg(Arg::new("own").long("metrics"));
        assert_eq!(flag(command).get_arguments().count(), 1);
    }
}
