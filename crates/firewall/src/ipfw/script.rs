//! Sessions with a firewall as text: commands, frames that come in and leave, and the passing of
//! time.
//!
//! ```text
//! ; a comment
//! @ netmap:em0 netmap:em1 --default accept    the firewall, as `slipring firewall` takes it
//! $ ipfw add 100 deny udp from any to any 53  a command; its output follows
//! 00100 deny udp from any to any dst-port 53
//! > em0 udp 10.0.0.1:1000 10.1.0.1:53 x2 => lost denied x2
//! + 10s => em1@20ms                           time, and the frames sent meanwhile
//! ```
//!
//! Sockets and ports are simulated, and the script controls the clock. All other code is that of
//! the program. The output of a command with a mistake begins with `!`. An exit code other than 0
//! is printed as a line with `exit`. Log lines follow the lines with `>` and `+` that caused them.
//!
//! `SLIPRING_BLESS=1` writes the actual outputs to the scripts. The expected fate of a frame, after
//! `=>`, is only written if it was `?`, because a person must decide what is right.

mod files;
mod frames;
mod saved;
mod script_firewall;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use slipring_cli::units::TimeSpan;
use slipring_test_support::golden;

use script_firewall::ScriptFirewall;

/// Plays the script with this name, and compares the outputs that it contains with the actual ones.
pub(super) fn play(folder: &str, name: &str) {
    let path: PathBuf =
        [env!("CARGO_MANIFEST_DIR"), "tests", folder, &format!("{name}.txt")].iter().collect();
    let wanted =
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let is_blessed = golden::is_blessing();
    let played = played(&wanted, is_blessed);
    golden::check(&path, &played);
}

/// Runs the script and returns its text with the actual outputs. The expected fates after `=>` do
/// not change. If `fills` is set, the actual fate replaces each `?`.
fn played(script: &str, fills: bool) -> String {
    let mut lines = script.lines().peekable();
    let setup = lines.clone().find_map(|line| line.strip_prefix("@ "));
    let mut site = ScriptFirewall::new(setup.unwrap_or("netmap:em0 netmap:em1"));
    let mut text = String::new();
    while let Some(line) = lines.next() {
        assert!(is_directive(line), "`{line}` is output of nothing");
        let output = match line.split_once(' ').unwrap_or((line, "")) {
            ("$", words) => {
                text += &format!("{line}\n");
                site.command(words)
            }
            (sign @ (">" | "+"), rest) => {
                let (question, wanted) = rest.split_once(" => ").unwrap_or((rest, "?"));
                let got =
                    if sign == ">" { site.frames(question) } else { site.wait(time(question)) };
                let shown = if wanted == "?" && fills { &got } else { wanted };
                text += &format!("{sign} {question} => {shown}\n");
                assert!(fills || got == wanted, "{line}\n   became {got}\nafter\n{text}");
                if got != shown {
                    text += &format!("became {got}\n");
                }
                site.log_lines()
            }
            _ => {
                text += &format!("{line}\n");
                String::new()
            }
        };
        text += &output;
        while lines.next_if(|line| !is_directive(line)).is_some() {}
    }
    site.check();
    text
}

fn is_directive(line: &str) -> bool {
    [";", "@ ", "$ ", "> ", "+ "].iter().any(|sign| line.starts_with(sign))
}

fn time(text: &str) -> Duration {
    TimeSpan::parse(text, Duration::from_secs(1)).unwrap().duration()
}
