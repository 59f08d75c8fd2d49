//! null→null: the cost of forwarding without that of ports.

use slipring_port::{OpenOptions, forward};

use super::measure::{PROGRAM_CPU, Why, on_cpu, tally};
use super::row::{Bout, Role, Row, Unit};
use super::testpmd;

/// Frames appear, their buffers are exchanged, they vanish.
pub(crate) fn row(batch: u32) -> Row {
    let title = format!("null: to null:, 60 B, batch {batch}");
    Row::new(format!("null-{batch}"), title, Unit::PacketsPerSec)
        .with(Role::Ours, "slipring", move || forwarding(batch))
        .with(Role::Peer, "testpmd net_null", move || testpmd::null(batch))
}

fn forwarding(batch: u32) -> Result<Bout, Why> {
    let [mut from, mut to] = slipring_core::open_all(["null:", "null:"], &OpenOptions::default())?;
    Ok(Box::new(move |time| {
        let counted = on_cpu(PROGRAM_CPU, || {
            tally(time, || forward(&mut from, &mut to, batch).map(u64::from))
        });
        Ok(counted?.into())
    }))
}
