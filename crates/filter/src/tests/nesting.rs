//! Tests of the limit on how deeply filter expressions are nested: what counts as a level, and what
//! does not.

use std::format;
use std::string::String;
use std::vec;

use crate::{Filter, FilterError};

fn parses(text: &str) -> bool {
    match Filter::parse(text) {
        Ok(_) => true,
        Err(FilterError::TooDeep { limit: 200, .. }) => false,
        Err(error) => panic!("{text}: {error}"),
    }
}

#[test]
fn two_hundred_levels_are_allowed() {
    for (levels, allowed) in [(200, true), (201, false)] {
        assert_eq!(parses(&format!("{}tcp", "not ".repeat(levels))), allowed);
        let groups = format!("{}tcp{}", "(".repeat(levels), ")".repeat(levels));
        assert_eq!(parses(&groups), allowed);
    }
}

#[test]
fn what_is_closed_no_longer_counts() {
    for part in [
        "(tcp)",
        "not tcp",
        "not (tcp or udp)",
        "(tcp or udp and arp)",
        "host not 10.0.0.1",
        "port (80 or 81)",
        "port (80 or 81 and 82 or 83)",
        "len + (len + 1) = -5",
    ] {
        assert!(parses(&vec![part; 500].join(" or ")), "{part}");
    }
}

#[test]
fn a_list_nests_where_its_operator_changes() {
    let list = |joins: &[&str], count: usize| -> String {
        let ports = (0..count).map(|i| format!("{i} {} ", joins[i % joins.len()]));
        format!("port ({}9)", ports.collect::<String>())
    };
    assert!(parses(&list(&["or"], 500)));
    assert!(parses(&list(&["and"], 500)));
    assert!(parses(&list(&["or", "and"], 150)));
    assert!(!parses(&list(&["or", "and"], 250)));
}
