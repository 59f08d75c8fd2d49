//! Tests with invalid input files.

use super::script_firewall::ScriptFirewall;

#[test]
fn a_file_that_is_no_text_is_quoted_so_that_a_terminal_shows_it_and_obeys_nothing() {
    let site = ScriptFirewall::new("netmap:em0 netmap:em1");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("binary");
    let every_byte: Vec<u8> = (0..=255).collect();
    let program = b"\x7fELF\x02\x01\x01\0\0\0\0\x03\0>\0\x1b[2J\x1b]0;gone\x07".to_vec();
    let named = b"add 100 allow ip from any to any recv \x1b[2J\ntable \x1b[2J list".to_vec();
    let comment = b"add 100 allow ip from any to any // \x1b[2J\x9b2J".to_vec();
    for (bytes, is_refused) in
        [(every_byte, true), (program, true), (named, true), (comment, false)]
    {
        std::fs::write(&path, bytes).unwrap();
        for flags in ["-n", ""] {
            let output = site.command(&format!("ipfw {flags} {}", path.display()));
            assert_eq!(output.contains("exit 65"), is_refused, "{output:?}");
            let is_obeyed = |c: char| c.is_control() && c != '\n';
            assert!(!output.contains(is_obeyed), "{output:?}");
        }
    }
    assert!(!site.command("ipfw list").contains('\u{1b}'));
}
