//! Tests of `slipring nic` on a machine whose interfaces are not PCI cards. The tests that move
//! cards run in virtual machines (`make guest`).

use super::{document, slipring, with_links};

#[test]
fn what_is_no_card_is_refused_with_the_reason_and_nothing_is_written() {
    let Some(namespace) = with_links() else { return };
    for (words, cause) in [
        ("nic bind here", "`here`"),
        ("nic bind here --dry-run", "`here`"),
        ("nic doctor no-such-if", "there is no interface or PCI device `no-such-if`"),
        ("nic restore no-such-if", "there is no saved state of it"),
        ("nic bind ffff:ff:1f.7 --force", "there is no interface or PCI device `ffff:ff:1f.7`"),
    ] {
        let ended = slipring(&namespace, words);
        assert_eq!(ended.code(), 2, "{words}: {ended:?}");
        assert!(ended.stderr.starts_with("error[SR0306]"), "{words}: {}", ended.stderr);
        assert!(ended.stderr.contains(cause), "{words}: {}", ended.stderr);
        assert!(ended.stderr.contains("help: "), "{words}: {}", ended.stderr);
    }
}

#[test]
fn without_taken_cards_there_is_nothing_to_restore() {
    let Some(namespace) = with_links() else { return };
    let ended = slipring(&namespace, "nic restore --all").well();
    assert_eq!(ended.stdout, "Nothing is taken.\n");
    let listed = document(&slipring(&namespace, "nic list --json").well());
    assert!(listed["cards"].is_array(), "{listed}");
}
