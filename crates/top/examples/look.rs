//! Publishes the counters of one link, and shows them as `slipring top --once` does.

use std::error::Error;

use slipring_core::counters::Publisher;
use slipring_top::attach::AttachedProgram;
use slipring_top::figures::TopSample;
use slipring_top::plain;
use slipring_top::schema::{MetricCounter, MetricObject, MetricSchema, SCHEMA_VERSION};

fn main() -> Result<(), Box<dyn Error>> {
    let mut names =
        MetricSchema { schema: SCHEMA_VERSION, line: "look".into(), ..MetricSchema::default() };
    let counters = ["output.packets", "output.bytes"].map(|name| {
        let unit = name.rsplit('.').next().unwrap_or_default();
        MetricCounter::growing(name, unit)
    });
    names.describe("link", counters.into());
    names.add(MetricObject { kind: "link".into(), name: "up".into(), ..MetricObject::default() });

    let dir = std::env::temp_dir().join(format!("slipring-look-{}", std::process::id()));
    let mut publisher = Publisher::open(&dir, &names.text(), names.words())?;
    let mut attached = AttachedProgram::find(&dir, None)?;
    publisher.publish(1_000_000_000, [0, 0]);
    let before = attached.snapshot()?;
    publisher.publish(2_000_000_000, [1000, 1_250_000]);
    let now = attached.snapshot()?;
    print!("{}", plain::text(&TopSample::of(&attached, Some(&before), &now)));
    drop(publisher);
    std::fs::remove_dir_all(dir)?;
    Ok(())
}
