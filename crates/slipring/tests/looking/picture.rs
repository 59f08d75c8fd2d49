//! Tests that the picture in README.md shows what the emulator does.

use std::path::Path;
use std::process::Command;

use slipring_test_support::program;

use crate::SLIPRING;

#[test]
fn the_picture_of_the_readme_is_what_the_emulator_does() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let dir = tempfile::tempdir().unwrap();
    let drawn = dir.path().join("link.svg");
    let script = root.join("scripts/picture.py");
    let mut python = Command::new("python3");
    let done = program::output(python.arg(script).arg(SLIPRING).arg(&drawn));
    assert!(done.status.success(), "{done:?}");
    let [drawn, kept] =
        [drawn, root.join("docs/link.svg")].map(|path| std::fs::read(path).unwrap());
    assert!(
        drawn == kept,
        "scripts/picture.py makes another docs/link.svg: look at it, then commit it"
    );
}
