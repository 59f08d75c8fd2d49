//! Tests of outputs and behaviour. Each is a session in a separate file; [`super::script`] defines
//! the format.
//!
//! # Tests for ipfw's documented behaviour
//! This table names the tests of each documented behaviour of ipfw. The prefixes are: `scenarios`
//! and `golden` for the folders in `tests`, `between` for the tests with network namespaces, `join`
//! for the tests of the dataplane, `dummynet` for the tests of that crate. All other tests are in
//! `slipring_ipfw::run::tests`.
//!
//! | behaviour | test |
//! |---|---|
//! | allow and deny, both versions of IP | `control::allow_passes_pings_…`, `control::deny_stops_pings_…`, `between::rules_come_and_go_…` |
//! | `deny … out` keeps frames from the far port | `control::deny_out_stops_frames_on_their_way_out_only` |
//! | `{ a or b }` | `fields::or_blocks_match_any_of_their_members` |
//! | lists and ranges of ports | `fields::lists_of_ports_match_their_members_only` |
//! | automatic numbers, `autoinc_step` | `control::a_rule_without_a_number_comes_a_step_behind_the_last` |
//! | `skipto` | `control::skipto_…`, `scenarios::skipto_tablearg_…` |
//! | `call`, `return` | `control::call_returns_above_the_caller`, `control::return_without_a_call_goes_on`, `scenarios::call_and_return_…` |
//! | `prob` | `control::prob_denies_its_share_and_counts_it` |
//! | sets of hosts | `fields::a_set_of_hosts_matches_exactly_those` |
//! | `established`, `setup` | `fields::established_is_anything_but_a_lone_syn`, `fields::setup_is_syn_without_ack` |
//! | `iplen`, `ipttl`, `ipid`, `iptos`, `ipprecedence` | `fields::header_fields_…`, `fields::type_of_service_…` |
//! | `flow-id` | `fields::flow_ids_of_ipv6` |
//! | `setdscp` keeps ECN and the checksum | `fields::setdscp_keeps_ecn_and_the_checksum`, `scenarios::setdscp_marks_calls_…` |
//! | `mac-type` | `fields::mac_types_of_ipv4_and_ipv6_are_not_arp`, `golden::options` |
//! | `ip` counts ARP and `ip4` does not | `fields::ip_is_everything_and_ip4_is_not` |
//! | `unreach`, `reset` answer | `replies`, `scenarios::refusals_…`, `between::a_refused_connection_is_told_at_once` |
//! | `set swap` under load | `between::sets_that_change_places_under_load_…`, `scenarios::a_ruleset_is_exchanged_…` |
//! | `flush` and set 31 | `control::flush_spares_set_31_…`, `golden::sets` |
//! | `zero`, `resetlog` | `commands::zero_clears_…`, `golden::counters` |
//! | `-n`, `-p` | `golden::errors`, `between::mistakes_are_told_…` |
//! | the longest prefix picks the pipe | `lookups::tablearg_is_the_value_of_the_longest_prefix` |
//! | `atomic` | `lookups::an_atomic_change_…`, `golden::tables` |
//! | masked look-ups, also of a DSCP that `setdscp` has set | `lookups::masked_lookups_…` |
//! | tables that change all the time | `lookups::random_changes_…`, `between::tables_that_change_all_the_time_…` |
//! | named states | `states::names_tell_states_apart`, `scenarios::names_tell_states_apart` |
//! | lifetimes | `states::a_udp_state_ends_…` and the following tests, `scenarios::states_end_at_their_times_…` |
//! | a slow pipe and large pings | `dummynet::one_ping_passes_…`, `scenarios::a_slow_pipe_…` |
//! | delay both ways, `plr` | `dummynet::a_round_trip_…`, `dummynet::plr_loses_its_share`, `scenarios::a_delay_both_ways_…`, `between::a_pipe_delays_both_ways` |
//! | a pipe for each host of a mask | `dummynet::a_masked_pipe_…`, `scenarios::per_host_pipes_…` |
//!
//! # Tests that netmap-ipfw's defects do not return
//! | defect | test |
//! |---|---|
//! | queues deliver nothing | `join::a_queue_delivers_under_every_scheduler` |
//! | `type rr` ends the program | `dummynet::a_pipe_survives_becoming_a_round_robin_scheduler` |
//! | a file hangs after `pipe config` | `between::a_file_is_loaded_wholly_or_not_at_all`, `golden::errors` |
//! | states never end, times stay blank | `states`, `golden::list_flags`, `golden::states` |
//! | `dyn_max` is ignored | `defects::dyn_max_is_enforced`, `scenarios::a_full_state_table_…` |
//! | `one_pass` is ignored | `join::with_one_pass_off_…`, `scenarios::per_host_pipes_…` |
//! | rates of 2^31 bit/s and above | `dummynet::rates_beyond_31_bits_hold_as_said` |
//! | `deny` ends the source | `defects::a_deny_verdict_is_only_a_verdict` |
//! | listings repeat rows and addresses | `defects::rows_of_flows_…`, `defects::a_hidden_disabled_rule_…`, `defects::an_address_with_a_mask_…` |
//! | `pri` is ignored | `dummynet::prio_sends_nothing_of_a_later_priority_…`, `scenarios::setdscp_marks_calls_…` |
//! | unknown verdicts and headers pass | `defects::unknown_ipv6_next_headers_meet_the_rules`, `hostile` |
//! | tags leak and hide each other | `defects::a_later_tag_hides_no_earlier_one_…`, `scenarios::a_tag_carries_…` |

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::script::play;

/// Defines a test for each script of a folder.
macro_rules! scripts {
    ($folder:ident: $($name:ident)*) => {
        mod $folder {
            $(#[test] fn $name() { super::play(stringify!($folder), stringify!($name)); })*

            #[test]
            fn every_script_is_played() {
                super::same_as_files(stringify!($folder), &[$(stringify!($name)),*]);
            }
        }
    };
}

fn same_as_files(folder: &str, names: &[&str]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let scripts = files.filter(|path| path.extension().is_some_and(|kind| kind == "txt"));
    let found: BTreeSet<_> =
        scripts.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    assert_eq!(found, names.iter().map(|name| (*name).to_owned()).collect());
}

scripts! {
    golden:
    actions counters errors explain help list_flags log mistakes nat options pipes sets states sysctl tables
    values
}

scripts! {
    scenarios:
    a_bridge_passes_arp_and_tells_so
    a_client_ruleset_lets_one_machine_ask_and_be_sent_mail
    a_closed_ruleset_passes_nothing
    a_deferred_action_keeps_the_state_and_goes_on
    a_delay_both_ways_doubles_the_round_trip
    a_file_of_a_large_user_loads_as_it_is
    a_full_state_table_says_so_and_frees_itself
    a_home_router_gives_every_host_its_share_and_games_the_first_place
    a_mark_is_set_once_and_asked_for_bit_by_bit
    a_port_chosen_by_fwd_is_left_by_whatever_the_map_says
    a_reload_keeps_counters_and_states_of_rules_that_stay
    a_ruleset_is_exchanged_at_once_by_swapping_sets
    a_simple_ruleset_keeps_forged_and_reserved_sources_out
    a_slow_pipe_passes_one_ping_and_drops_the_flood
    a_stateful_ruleset_works_on_both_sides_of_its_translator
    a_stateless_list_lets_connections_out_and_their_answers_in
    a_table_of_attackers_grows_and_is_forgiven_without_a_reload
    a_tag_carries_what_was_decided_on_the_way_in_to_the_way_out
    a_workstation_is_answered_and_only_the_office_may_log_in
    an_instance_without_an_address_has_that_of_me
    an_instance_without_an_address_takes_its_redirections_for_any
    an_open_ruleset_stops_forgers_of_loopback_only
    call_and_return_share_a_list_of_checks
    keepalives_hold_an_idle_connection_open
    known_machines_only_may_speak_on_a_port
    limit_src_addr_caps_the_connections_of_each_host
    maintenance_is_a_set_that_is_switched_on_and_off
    malformed_packets_are_lost_by_their_own_cause_whatever_the_rules
    names_tell_states_apart
    neighbour_discovery_works_under_a_list_that_denies
    per_host_pipes_and_the_next_rule_without_one_pass
    reass_shows_rules_the_ports_of_every_fragment
    refusals_are_answered_on_both_versions_of_ip
    server_farm_takes_connections_in_turn
    setdscp_marks_calls_and_what_carries_the_mark_goes_first
    skipto_tablearg_sends_each_customer_to_its_own_rules
    states_end_at_their_times_and_the_listing_counts_down
    states_go_with_their_rule_by_number
    tables_hold_flows_ports_and_interfaces
    traffic_of_customers_is_counted_both_ways
    values_of_one_table_choose_among_rules
    vlans_are_kept_apart_by_their_tags
}
