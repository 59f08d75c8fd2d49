use std::string::ToString;

use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> Endpoints {
    text.parse().unwrap()
}

fn fault(text: &str) -> (EndpointFault, usize) {
    let error = text.parse::<Endpoints>().unwrap_err();
    (error.fault, error.column)
}

fn only_block(text: &str) -> EndpointBlock {
    let endpoints = parse(text);
    assert_eq!(endpoints.blocks.len(), 1);
    endpoints.blocks[0]
}

#[test]
fn single_address_has_the_classic_port() {
    let expected = Endpoints::one(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 1234);
    assert_eq!(parse("10.0.0.1"), expected);
}

#[test]
fn second_end_without_port_keeps_the_first_port() {
    let block = only_block("10.0.0.1:99-10.0.0.3");
    assert_eq!((block.first_port, block.last_port), (99, 99));
    assert_eq!(block.last_index, 2);
}

#[test]
fn range_may_be_written_from_either_end() {
    assert_eq!(parse("10.0.0.9:2000-10.0.0.1:1000"), parse("10.0.0.1:1000-10.0.0.9:2000"));
}

#[test]
fn port_range_needs_no_second_address() {
    assert_eq!(parse("10.0.0.1:5-9"), parse("10.0.0.1:5-10.0.0.1:9"));
    assert_eq!(parse("[fd00::1]:5-9"), parse("[fd00::1]:5-[fd00::1]:9"));
}

#[test]
fn ipv6_works_with_and_without_brackets() {
    let bare = parse("fd00::1-fd00::ff");
    assert_eq!(bare, parse("[fd00::1]-[fd00::ff]"));
    assert_eq!(bare.family(), IpVersion::V6);
    assert_eq!(bare.count(), 255);
}

#[test]
fn prefix_is_all_its_addresses() {
    let block = only_block("10.0.0.77/24:80-81");
    assert_eq!(block.address(0), 0x0a00_0000);
    assert_eq!(block.count(), 512);
    assert_eq!(parse("::/0").count(), u128::MAX);
    assert_eq!(parse("[fd00::/120]:7-8").count(), 512);
}

#[test]
fn single_pair_widens_to_everything_and_a_range_to_itself() {
    assert_eq!(parse("10.0.0.1").widened().count(), 1 << 48);
    assert_eq!(parse("10.0.0.0/30").widened(), parse("10.0.0.0/30"));
    let wide = parse("fd00::1").widened();
    assert_eq!(wide.blocks[0].first, 0xfd00 << 112);
    assert_eq!(wide.blocks[0].last_index, u128::from(u64::MAX));
}

#[test]
fn fault_names_the_column_of_the_faulty_part() {
    use EndpointFault as F;
    assert_eq!(fault(""), (F::Address, 1));
    assert_eq!(fault("10.0.0.256"), (F::Address, 1));
    assert_eq!(fault("10.0.0.1:http"), (F::Port, 10));
    assert_eq!(fault("10.0.0.1:+1"), (F::Port, 10));
    assert_eq!(fault("10.0.0.1:"), (F::Port, 10));
    assert_eq!(fault("10.0.0.1:1-10.0.0.2:65536"), (F::Port, 21));
    assert_eq!(fault("10.0.0.1:1-65536"), (F::Port, 12));
    assert_eq!(fault("10.0.0.1-ten"), (F::Address, 10));
    assert_eq!(fault("10.0.0.1,10.0.0.2,x"), (F::Address, 19));
    assert_eq!(fault("10.0.0.1,"), (F::Address, 10));
    assert_eq!(fault("10.0.0.0/33"), (F::Prefix, 10));
    assert_eq!(fault("10.0.0.0/24-10.0.1.0"), (F::PrefixInRange, 13));
    assert_eq!(fault("[fd00::1:80"), (F::Bracket, 1));
    assert_eq!(fault("[fd00::1]80"), (F::AfterBracket, 10));
    assert_eq!(fault("10.0.0.1-fd00::1"), (F::MixedFamilies, 10));
    assert_eq!(fault("10.0.0.1,fd00::1"), (F::MixedFamilies, 10));
    assert_eq!(fault("8@fd00::1"), (F::Group, 1));
    assert_eq!(fault("1@10.0.0.1"), (F::Group, 1));
}

#[test]
fn fault_reads_as_a_sentence() {
    let error = "10.0.0.1:x".parse::<Endpoints>().unwrap_err();
    assert_eq!(error.to_string(), "a port is a number from 0 to 65535 at column 10");
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in "[0-9a-f:.,@/\\[\\]\u{e9}-]{0,40}") {
        let _ = text.parse::<Endpoints>();
    }

    #[test]
    fn column_points_into_the_text(text in ".{0,30}") {
        if let Err(error) = text.parse::<Endpoints>() {
            prop_assert!((1..=text.len() + 1).contains(&error.column));
        }
    }

    #[test]
    fn written_ranges_are_read_back(a: u32, b: u32, p: u16, q: u16) {
        let (from, to) = (Ipv4Addr::from_bits(a), Ipv4Addr::from_bits(b));
        let block = only_block(&std::format!("{from}:{p}-{to}:{q}"));
        prop_assert_eq!(block.address(0), u128::from(a.min(b)));
        prop_assert_eq!(block.address(block.last_index), u128::from(a.max(b)));
        prop_assert_eq!((block.first_port, block.last_port), (p.min(q), p.max(q)));
    }
}
