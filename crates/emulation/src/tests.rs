//! Tests of flags and files, as tables: accepted values with their meaning, refused values with
//! their messages.

mod accepted;
mod bare;
mod causes;
mod defects;
mod files;
mod live;
mod refused;
mod told;

use slipring_cli::{Diagnostic, Failure};
use slipring_link::{LinkSpec, NetworkSpec};

use super::config::EmulationConfig;
use super::{EmulationPlan, flags};

/// Builds the plan of a command line of `tlem`, whose arguments are separated by spaces.
fn plan(args: &str) -> Result<EmulationPlan, Box<Diagnostic>> {
    plan_of(&args.split_ascii_whitespace().collect::<Vec<_>>())
}

fn plan_of(args: &[&str]) -> Result<EmulationPlan, Box<Diagnostic>> {
    plan_by(flags::command().arg(slipring_cli::flags::called_as("tlem")), args)
}

fn plan_by(command: clap::Command, args: &[&str]) -> Result<EmulationPlan, Box<Diagnostic>> {
    let args = ["emulate"].iter().chain(args);
    let matches = command.try_get_matches_from(args).unwrap();
    EmulationPlan::of(&matches).map_err(|failure| match failure {
        Failure::Error(error) => error,
        Failure::ReaderLeft => panic!("planning writes nothing"),
    })
}

/// Returns the links `up` and `down` of a command line between two captures.
fn links(args: &str) -> [LinkSpec; 2] {
    let plan =
        plan(&format!("--virtual a b {args}")).unwrap_or_else(|error| panic!("{args}: {error}"));
    let [up, down] = &plan.network.links[..] else { panic!("two links") };
    [up.spec.clone(), down.spec.clone()]
}

/// Returns the link `up` of a command line.
fn up(args: &str) -> LinkSpec {
    links(args)[0].clone()
}

/// Returns the error message for a refused command line: summary, cause and help, without the
/// code.
fn refusal(args: &str) -> String {
    message(&plan(&format!("--virtual a b {args}")).unwrap_err())
}

fn message(error: &Diagnostic) -> String {
    use slipring_cli::Diagnose;
    let parts = [Some(error.summary()), error.cause(), error.help()];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" | ")
}

/// Returns the network of a file's text.
fn network(text: &str) -> Result<NetworkSpec, String> {
    let config = EmulationConfig::parse("link.toml", text);
    config.and_then(|config| config.network()).map_err(|error| message(&Diagnostic::of(&error)))
}

/// Returns a configuration with the settings `up` for the link `up`, and a link `down` without
/// settings.
fn file(up: &str) -> String {
    format!(
        "[ports.left]\n[ports.right]\n[link.up]\nfrom = \"left\"\nto = \"right\"\n{up}\n\
         [link.down]\nfrom = \"right\"\nto = \"left\"\n"
    )
}
