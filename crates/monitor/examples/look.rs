//! Publishes the counters of one link, and shows them as `slipring top --once` does.

use std::error::Error;

use slipring_core::counters::Publisher;
use slipring_monitor::attach::Attached;
use slipring_monitor::figures::Frame;
use slipring_monitor::names::{Counter, Names, Object, SCHEMA};
use slipring_monitor::plain;

fn main() -> Result<(), Box<dyn Error>> {
    let mut names = Names { schema: SCHEMA, line: "look".into(), ..Names::default() };
    let counters = ["output.packets", "output.bytes"].map(|name| {
        let unit = name.rsplit('.').next().unwrap_or_default();
        Counter::growing(name, unit)
    });
    names.describe("link", counters.into());
    names.add(Object { kind: "link".into(), name: "up".into(), ..Object::default() });

    let dir = std::env::temp_dir().join(format!("slipring-look-{}", std::process::id()));
    let mut publisher = Publisher::open(&dir, &names.text(), names.words())?;
    let mut attached = Attached::find(&dir, None)?;
    publisher.publish(1_000_000_000, [0, 0]);
    let before = attached.look()?;
    publisher.publish(2_000_000_000, [1000, 1_250_000]);
    let now = attached.look()?;
    print!("{}", plain::text(&Frame::of(&attached, Some(&before), &now)));
    drop(publisher);
    std::fs::remove_dir_all(dir)?;
    Ok(())
}
