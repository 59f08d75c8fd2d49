//! Lists of rules.

use slipring_wire::FrameSpec;

use super::draw::Draw;
use super::frames::{self, Rule};
use super::{Checks, PLAIN, bout, firewall};
use crate::bench::measure::Why;
use crate::bench::row::{Bout, Of, Role, Row, Unit};

/// Frames of as many flows, where flows differ.
const FLOWS: usize = 4096;

pub(super) fn rows() -> Vec<Row> {
    let sources = [(0, 50e6), (10, 40e6)].map(|(count, goal)| sources(count, goal));
    let mixed = [(100, 30e6), (1000, 20e6), (10_000, 5e6)].map(|(count, goal)| mixed(count, goal));
    sources.into_iter().chain(mixed).collect()
}

/// One that allows, behind some for other sources; one flow.
fn sources(count: usize, goal: f64) -> Row {
    let start = move |is_plain| {
        move || {
            let rules: String = (0..count)
                .map(|i| format!("add deny ip from 192.168.{}.{} to any\n", i / 250, i % 250))
                .collect();
            let frames = vec![frames::built(&FrameSpec::default()); FLOWS];
            checks(&format!("{rules}add allow ip from any to any"), frames, is_plain)
        }
    };
    let rules = count + 1;
    let title = format!("firewall, {} rule{}, parsed", rules, if rules > 1 { "s" } else { "" });
    Row::new(format!("firewall-rules-{rules}"), title, Unit::PacketsPerSec)
        .with(Role::Ours, "slipring", start(false))
        .with(Role::Floor, PLAIN, start(true))
        .goal(Of::Value, goal)
}

/// Rules of five fields, one in ten counts, packets for any of them.
fn mixed(count: usize, goal: f64) -> Row {
    let start = move |is_plain| {
        move || {
            let mut draw = Draw(count as u64);
            let rules: Vec<_> = (1..count).map(|_| Rule::draw(&mut draw)).collect();
            let frames = (0..FLOWS).map(|_| frames::frame(&mut draw, &rules)).collect();
            checks(&frames::text(&rules), frames, is_plain)
        }
    };
    let title = format!("firewall, {count} mixed rules, {FLOWS} flows");
    Row::new(format!("firewall-mixed-{count}"), title, Unit::PacketsPerSec)
        .with(Role::Ours, "slipring", start(false))
        .with(Role::Floor, PLAIN, start(true))
        .goal(Of::Value, goal)
}

fn checks(text: &str, mut frames: Vec<Vec<u8>>, is_plain: bool) -> Result<Bout, Why> {
    let (mut firewall, mut checks) = (firewall(text, is_plain)?, Checks::default());
    let mut at = 0;
    // A burst at a time: the slowest list takes milliseconds for one.
    Ok(bout(move || {
        at = (at + 256) % FLOWS;
        checks.all(&mut firewall, &mut frames[at..at + 256])
    }))
}
