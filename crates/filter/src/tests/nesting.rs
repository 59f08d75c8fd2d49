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

/// The deepest expression of these forms that is accepted is printed as one that is accepted, too.
#[test]
fn what_is_printed_is_nested_no_deeper() {
    let chain = |op: &str, count: usize| format!("{}len = 1", format!("len {op} ").repeat(count));
    let list = |count: usize| {
        let joins = ["or", "and"].into_iter().cycle();
        joins.zip(0..count).map(|(join, i)| format!("port {i} {join} ")).collect::<String>()
            + "port 9"
    };
    let forms: [&dyn Fn(usize) -> String; 9] = [
        &|count| chain("+", count),
        &|count| chain("-", count),
        &|count| chain("*", count),
        &|count| chain("%", count),
        &|count| chain("+ 1 %", count),
        &|count| chain("* 2 +", count),
        &|count| format!("{}len = 1", "- ".repeat(count)),
        &|count| format!("{}0{} = 1", "ip[".repeat(count), "]".repeat(count)),
        &list,
    ];
    for form in forms {
        let deepest = (1..300).take_while(|&count| parses(&form(count))).last().unwrap();
        let filter = Filter::parse(&form(deepest)).unwrap();
        assert_eq!(Filter::parse(&format!("{filter}")), Ok(filter), "{}", form(deepest));
    }
}
